"""Chromium for the tests of the pages: one session for all of them."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

if has_selenium := find_spec("selenium") is not None:
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.remote.webelement import WebElement
    from selenium.webdriver.support.ui import Select, WebDriverWait
else:  # whatever needs a browser is skipped
    ActionChains = By = Keys = Select = None

__all__ = ["LAPTOP", "PHONE", "ActionChains", "By", "Keys", "Select", "Tab", "driver"]
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --disable-dev-shm-usage --no-first-run --lang=en "
    "--disable-background-networking --disable-component-update --disable-sync --window-size=1280,800"
)
CONTRAST = Path(__file__).with_name("contrast.js").read_text("utf-8")
LAPTOP, PHONE = (1280, 800), (390, 844)


class Tab:
    """A page in Chromium."""

    def __init__(self, driver: Chrome, folder: Path) -> None:
        self.driver, self.folder, self.downloads = driver, folder, folder / "downloads"

    def find(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def texts(self, selector: str) -> list[str]:
        # in one call: scrolling redraws the rows of a list
        found = "[...document.querySelectorAll(arguments[0])].map((one) => one.innerText.trim())"
        return [str(text) for text in self.run(f"return {found}", selector)]

    def wait(self, true: Callable[[], object]) -> None:
        WebDriverWait(self.driver, 60, 0.02).until(lambda _: true())

    @contextmanager
    def isolated(self, *paths: Path, served: str = "") -> Iterator[None]:
        """Afterwards, check that the console is empty, and only these files or URLs below ``served`` were loaded."""
        self.driver.get_log("performance")
        yield
        assert self.driver.get_log("browser") == []
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [e["params"] for e in events if e["method"] == "Network.requestWillBeSent"]
        # a new window first loads a page of the browser
        urls = [request["request"]["url"] for request in sent if not request["documentURL"].startswith("chrome")]
        assert urls
        urls = [url for url in urls if not served or not url.startswith(served)]
        assert {url.partition(":")[0] for url in urls} <= {"file", "data", "blob"}
        files = {url.partition("#")[0] for url in urls if url.startswith("file:")}
        assert files == {path.as_uri() for path in paths}

    @contextmanager
    def emulating(self, size: tuple[int, int] = LAPTOP, **media: str) -> Iterator[None]:
        """Emulate a window size and media features."""
        width, height = size
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        features = [{"name": name.replace("_", "-"), "value": value} for name, value in media.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        yield
        self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})

    @property
    def scrolls_sideways(self) -> bool:
        root = "document.documentElement"
        return bool(self.run(f"return {root}.scrollWidth > {root}.clientWidth"))

    @property
    def low_contrast(self) -> list[str]:
        """Enabled texts whose contrast is below WCAG AA, with their colours."""
        return [str(text) for text in self.run(CONTRAST)]


def driver(folder: Path) -> Chrome:
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    service = shutil.which("chromedriver")
    if not browser or not service or not has_selenium:
        if os.environ.get("MEDLINK_REQUIRE_BROWSER"):
            pytest.fail("MEDLINK_REQUIRE_BROWSER is set, and Chromium, its chromedriver or selenium is not installed")
        pytest.skip("Chromium, its chromedriver or selenium is not installed")
    options = ChromeOptions()
    options.binary_location = browser
    for flag in (*FLAGS.split(), f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(flag)
    options.add_experimental_option("prefs", {"download.default_directory": str(folder / "downloads")})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return Chrome(options=options, service=ChromeService(service))
