"""Opening the re-ranker that a user names."""

from __future__ import annotations

import os
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
    if os.path.isdir(named):  # noqa: PTH112  # Path fails where a name is too long
        from medlink.linking.rankers.cross_encoder import CrossEncoderRanker

        return CrossEncoderRanker(named, bundle, kept)
    is_url = named.lower().startswith(("http://", "https://"))
    if is_url or Path(named).suffix.lower() in (".toml", ".json"):
        from medlink.linking.rankers.chat import ChatRanker
        from medlink.linking.rankers.endpoint import Endpoint

        return ChatRanker(Endpoint(url=named) if is_url else Endpoint.read(named), bundle, kept)
    remedy = "name a folder of 'medlink train ranker', a URL that begins with https://, or a TOML or JSON file"
    raise ConfigError("is no ranker", path=named, remedy=remedy)
