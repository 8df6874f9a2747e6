"""Where a language model answers, and one question to it over HTTP.

No redirect is followed and no proxy is used, so that what is sent goes to the named machine and to no other.
"""

from __future__ import annotations

import ipaddress
import os
import re
import ssl
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Self
from urllib.parse import SplitResult, urlsplit

import anyio
import httpx
from anyio.from_thread import start_blocking_portal
from pydantic import AfterValidator, Field, model_validator

from medlink.errors import InputError
from medlink.files.json import parse_json, read_json
from medlink.files.toml import read_toml
from medlink.settings import Settings

_LARGEST = 1 << 20  # bytes of an answer
_CHAT = "/chat/completions"
_KEY = re.compile(r"[!-~]+")
_trusted = cache(ssl.create_default_context)


class NoAnswer(Exception):
    """Why there is no answer, without a word of what was sent or received; ``again`` where asking again may help."""

    def __init__(self, why: str, *, again: bool = False) -> None:
        super().__init__(why)
        self.why, self.again = why, again


def _url(url: str) -> str:
    """A URL that may be asked; ValueError without the URL itself, which may hold a password."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ValueError("url is no URL") from None
    if parts.scheme not in ("http", "https") or not host or not url.isascii() or re.search(r"[\x00-\x20\x7f]", url):
        raise ValueError("url is no URL that begins with http:// or https:// and a host")
    if parts.username is not None or parts.password is not None:
        raise ValueError("url has a name or password in it: name the key with key_variable instead")
    if parts.query or parts.fragment:
        raise ValueError("url has a ? or # in it")
    return url


def _variable(name: str | None) -> str | None:
    """The name of an environment variable; errors do not show it, as it may be the key itself."""
    if name is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError("key_variable is no name of an environment variable")
    if name is not None and not _KEY.fullmatch(os.environ.get(name, "")):
        raise ValueError("the environment variable that key_variable names is not set, or is no key")
    return name


class Endpoint(Settings):
    """A language model behind the protocol of OpenAI's chat completions, and what of a mention is sent to it.

    >>> Endpoint(url="http://127.0.0.1:8080").target.path
    '/v1/chat/completions'
    >>> Endpoint(url="https://models.example/api/v2", model="small").target.path
    '/api/v2/chat/completions'
    """

    url: Annotated[str, AfterValidator(_url), Field(description="URL of the server, with or without /v1.")]
    model: Annotated[str, Field(min_length=1, description="Name of the model.")] = "default"
    key_variable: Annotated[
        str | None, AfterValidator(_variable), Field(description="Environment variable that holds the key.")
    ] = None
    context: Annotated[bool, Field(description="Also send the text around a mention.")] = False
    candidates: Annotated[int, Field(ge=2, le=50, description="How many of the first candidates are sent.")] = 8
    timeout: Annotated[float, Field(gt=0, le=3600, description="Seconds that one answer may take in all.")] = 30.0
    retries: Annotated[int, Field(ge=0, le=10, description="How often a question is asked again.")] = 2
    max_tokens: Annotated[int, Field(ge=8, le=100_000, description="Tokens of an answer.")] = 200

    @model_validator(mode="after")
    def _key_is_safe(self) -> Self:
        if self.key_variable is not None and self.target.scheme == "http" and not _is_loopback(self.target.hostname):
            raise ValueError("the key would be sent over http to another machine: use https")
        return self

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """What a TOML or JSON file says.

        Raises:
            InputError: it cannot be read.
            ConfigError: it names something unknown, or a value is out of its range.
        """
        path = Path(path)
        if path.suffix.lower() == ".toml":
            return cls(**read_toml(path))
        try:
            said = read_json(path)
            if not isinstance(said, dict):
                raise ValueError("an object with url is expected")
        except (OSError, ValueError) as error:
            what = error.strerror if isinstance(error, OSError) else error
            raise InputError(f"cannot be read: {what}", path=path, remedy="give a JSON object with url") from error
        return cls(**said)

    @property
    def target(self) -> SplitResult:
        """The URL that is asked."""
        parts = urlsplit(self.url)
        path = parts.path.rstrip("/")
        return parts._replace(path=path if path.endswith(_CHAT) else f"{path or '/v1'}{_CHAT}")

    def ask(self, messages: list[dict[str, str]]) -> str:
        """The text of one answer, at temperature 0.

        Raises:
            NoAnswer: none came in time, or none of the protocol.
        """
        body = {"model": self.model, "messages": messages, "temperature": 0, "max_tokens": self.max_tokens}
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", "Connection": "close"}
        if self.key_variable is not None:
            key = os.environ.get(self.key_variable, "")
            if not _KEY.fullmatch(key):
                raise NoAnswer("the key is gone")
            headers["Authorization"] = f"Bearer {key}"
        try:
            # in an event loop of its own thread, as the caller may have one
            with start_blocking_portal() as portal:
                found = portal.call(self._post, body, headers)
        except (TimeoutError, httpx.TimeoutException):
            raise NoAnswer("timed out", again=True) from None
        except (OSError, httpx.HTTPError, httpx.InvalidURL, ValueError):
            raise NoAnswer("no connection, or a broken one", again=True) from None
        try:
            text = parse_json(found.decode("utf-8"))["choices"][0]["message"]["content"]
        except (ValueError, LookupError, TypeError):
            text = None
        if not isinstance(text, str):
            raise NoAnswer("answers that are not of the protocol")
        return text

    async def _post(self, body: dict[str, Any], headers: dict[str, str]) -> bytes:
        found = b""
        async with httpx.AsyncClient(verify=_trusted(), timeout=self.timeout, trust_env=False) as client:
            # httpx limits the time of each packet: a server that drips would never end
            with anyio.fail_after(self.timeout):
                async with client.stream("POST", self.target.geturl(), json=body, headers=headers) as answer:
                    if answer.status_code != 200:
                        again = answer.status_code in (408, 429) or answer.status_code >= 500
                        raise NoAnswer(f"HTTP status {answer.status_code}", again=again)
                    async for part in answer.aiter_raw():
                        found += part
                        if len(found) > _LARGEST:
                            raise NoAnswer("answers of more than 1 MB")
        return found


def _is_loopback(host: str | None) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False
