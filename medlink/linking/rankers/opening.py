"""Opening the re-ranker that a user names."""

from __future__ import annotations

from pathlib import Path

from medlink.errors import ConfigError
from medlink.index import Bundle
from medlink.linking.rankers.cache import RankerCache
from medlink.linking.rankers.protocol import Reranker


def open_reranker(named: str, bundle: Bundle, cache: str | None = None) -> Reranker:
    """Open a re-ranker for a bundle; nothing is asked of any network.

    Args:
        named: a folder of ``medlink train ranker``, a URL of a language model, or a TOML or JSON file that describes
            one (:class:`~medlink.linking.rankers.endpoint.Endpoint`).
        bundle: where the candidates are from.
        cache: the folder in which what it says is kept.

    Raises:
        ConfigError: it is none of these, or its description or the cache cannot be used.
        EncoderError: the folder is no ranker, or is damaged.
        InputError: the file cannot be read.
    """
    kept = None if cache is None else RankerCache(cache)
    if _is_folder(named):
        from medlink.linking.rankers.cross_encoder import CrossEncoderRanker

        return CrossEncoderRanker(named, bundle, kept)
    if is_url(named) or Path(named).suffix.lower() in (".toml", ".json"):
        from medlink.linking.rankers.chat import ChatRanker
        from medlink.linking.rankers.endpoint import Endpoint

        return ChatRanker(Endpoint(url=named) if is_url(named) else Endpoint.read(named), bundle, kept)
    remedy = "name a folder of 'medlink train ranker', a URL that begins with https://, or a TOML or JSON file"
    raise ConfigError("is no ranker", path=named, remedy=remedy)


def _is_folder(named: str) -> bool:
    try:
        return Path(named).is_dir()
    except OSError:  # the name is too long
        return False


def is_url(named: str) -> bool:
    """Whether it is meant as a URL.

    >>> is_url("https://127.0.0.1:8080"), is_url("ranker")
    (True, False)
    """
    return named.lower().startswith(("http://", "https://"))
