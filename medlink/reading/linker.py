"""``Linker``: link mentions; scores a mention with a context as in a note."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from medlink.linking import Linker as BareLinker
from medlink.linking import Mention
from medlink.reading.options import FinderOptions
from medlink.reading.protocols import Span
from medlink.reading.reader import ReadMention, TextReader
from medlink.records import Link


class Linker(BareLinker):
    """Link mentions with a bundle: same bundle, same mentions, same contexts, same result.

    Arguments and errors are those of :class:`medlink.linking.Linker`. Scores a mention that occurs in its context like
    :class:`medlink.NotePipeline`, any other mention by its candidates alone.
    """

    def link(
        self, mentions: Sequence[str | Mention], contexts: Sequence[str] | None = None, k: int | None = None
    ) -> list[Link]:
        """Link n mentions, optionally with n texts around them; see :meth:`medlink.linking.Linker.link`."""
        if contexts is None or isinstance(mentions, str) or len(contexts) != len(mentions):
            return super().link(mentions, contexts, k)
        read = self._read_in_context(mentions, contexts)
        judged = [read[at].mention if at in read else mention for at, mention in enumerate(mentions)]
        around = [read[at].context if at in read else context for at, context in enumerate(contexts)]
        return super().link(judged, around, k)

    def _read_in_context(self, mentions: Sequence[str | Mention], contexts: Sequence[str]) -> dict[int, ReadMention]:
        # positions of mentions by language, context and span
        given: dict[str, dict[str, dict[Span, list[int]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
        for at, (item, context) in enumerate(zip(mentions, contexts, strict=True)):
            mention = item if isinstance(item, Mention) else Mention(item)
            language = mention.language or self.options.language
            known = mention.confidence is not None or mention.learned_id is not None
            if language is None or known or not isinstance(mention.text, str) or not mention.text.strip():
                continue
            match = re.search(rf"(?<!\w){re.escape(mention.text.strip())}(?!\w)", context)
            if match is not None:
                given[language][context][match.span()].append(at)
        read_mentions: dict[int, ReadMention] = {}
        for language, texts in given.items():
            read = self._reader(language).judge(list(texts), [list(spans) for spans in texts.values()])
            for spans, judged in zip(texts.values(), read, strict=True):
                for positions, own in zip(spans.values(), judged, strict=True):
                    for at in positions:
                        item, read_mentions[at] = mentions[at], own
                        if isinstance(item, Mention) and item.expanded is not None:  # keep the long form of the caller
                            read_mentions[at] = replace(own, mention=replace(item, confidence=None))
        return read_mentions

    @cached_property
    def _reader(self) -> Callable[[str], TextReader]:
        return cache(lambda tag: TextReader(self.bundle, tag, FinderOptions(qualifiers=False), linker=self))


def load(bundle: str | Path, **options: Any) -> Linker:
    """Open a bundle for linking: memory-mapped, read-only, in well under a second.

    Args:
        bundle: folder of the bundle.
        options: fields of :class:`medlink.LinkOptions`, such as ``threshold``, ``language`` and ``ranker``.

    Raises:
        BundleError: parts of the bundle are missing or do not belong together.
        ConfigError: an option is unknown or out of range, or names something that the bundle lacks.
    """
    return Linker(bundle, **options)
