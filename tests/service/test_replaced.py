"""Several bundles, bundles that are replaced, and a service that is stopped, all under load."""

from __future__ import annotations

import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from medlink.errors import ConfigError
from medlink.index import extend_bundle
from medlink.kb import Input
from medlink.linking.demo import demo_notes
from medlink.notes.options import NoteOptions
from medlink.service.bundles import open_bundles

from .running import Running, serving

pytestmark = pytest.mark.slow
NEW = "concept_id\tname\tlanguage\nX:1\tHausbegriff\tde\n"


def hausbegriff(running: Running, bundle: str | None = None) -> str | None:
    answer = running.post("/mentions", mentions=[{"text": "Hausbegriff", "language": "de"}], bundle=bundle)
    concept: str | None = answer.json()["mentions"][0]["concept_id"]
    return concept


@contextmanager
def load(running: Running) -> Iterator[Counter[str]]:
    """Send notes and searches all the time; counts what comes back."""
    seen, stop = Counter[str](), threading.Event()
    texts = list(demo_notes().values())

    def send(number: int) -> None:
        with httpx.Client(base_url=running.url, timeout=60, trust_env=False) as client:
            while not stop.is_set():
                try:
                    if number:
                        answer = client.post("/link", json={"notes": [{"text": texts[number % 3]}], "k": number})
                    else:
                        answer = client.get("/search?text=fever")
                    seen[str(answer.status_code)] += 1
                except httpx.TransportError as error:
                    seen[type(error).__name__] += 1
                    time.sleep(0.05)

    threads = [threading.Thread(target=send, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    yield seen
    stop.set()
    for thread in threads:
        thread.join()


def wait(true: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_replaced_bundle_is_opened_anew_and_no_request_fails(demo_path: Path, tmp_path: Path) -> None:
    """Extended in place, then as a folder that takes the place of another, then damaged."""
    folder, table, other = tmp_path / "house", tmp_path / "new.tsv", tmp_path / "other"
    shutil.copytree(demo_path, folder)
    shutil.copytree(demo_path, other)
    table.write_text(NEW, "utf-8")
    with serving(tmp_path, folder) as running, load(running) as seen:
        assert hausbegriff(running) is None
        extend_bundle(folder, [Input("table", table)])
        wait(lambda: hausbegriff(running) == "X:1")
        folder.rename(tmp_path / "old")
        other.rename(folder)
        wait(lambda: hausbegriff(running) is None)
        before = running.client.get("/info").json()["bundles"][0]["hash"]
        (folder / "manifest.json").write_text("{}", "utf-8")
        wait(lambda: "the old state is served, the new one cannot be opened" in running.log.read_text())
        assert running.client.get("/info").json()["bundles"][0]["hash"] == before
    assert set(seen) == {"200"}
    assert seen["200"] > 20


def test_several_bundles(demo_path: Path, tmp_path: Path) -> None:
    shutil.copytree(demo_path, tmp_path / "house")
    (tmp_path / "new.tsv").write_text(NEW, "utf-8")
    extend_bundle(tmp_path / "house", [Input("table", tmp_path / "new.tsv")])
    with serving(tmp_path, f"first={demo_path}", "house") as running:
        assert [one["name"] for one in running.client.get("/info").json()["bundles"]] == ["first", "house"]
        assert [hausbegriff(running, name) for name in (None, "first", "house")] == [None, None, "X:1"]
        found = [running.client.get(f"/concepts/X:1?bundle={name}").status_code for name in ("first", "house")]
        assert found == [404, 200]
    with pytest.raises(ConfigError, match="two bundles have the name 'house'"):
        open_bundles([str(tmp_path / "house"), f"house={demo_path}"], NoteOptions())


def test_a_stopped_service_completes_its_requests(demo_path: Path, tmp_path: Path) -> None:
    with serving(tmp_path, demo_path) as running, load(running) as seen:
        wait(lambda: seen["200"] > 8)
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(60) == 0
    # a client may send its next request while its idle connection is closed
    assert seen.total() - seen["200"] - seen["ConnectError"] <= 4


def test_a_killed_service_starts_again(demo_path: Path, tmp_path: Path) -> None:
    with serving(tmp_path, demo_path, end=signal.SIGINT) as running:
        port = int(running.url.rstrip("/").rpartition(":")[2])
    assert running.process.returncode == 0  # stopped before its first request
    with serving(tmp_path, demo_path, port=port, end=signal.SIGKILL) as running, load(running) as seen:
        wait(lambda: seen["200"] > 8)
        running.process.kill()
        running.process.wait()
        failed = seen.total() - seen["200"]
        assert failed <= 4  # one request for each client
        seen.clear()
        with serving(tmp_path, demo_path, port=port):
            wait(lambda: seen["200"] > 8)
