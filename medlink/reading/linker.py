"""``Linker``: mentions to ranked concepts; in a context a mention has the score that a reader of the note gives it."""

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

    Arguments and errors are those of :class:`medlink.linking.Linker`. A mention whose context has its words is judged
    there as :class:`medlink.NotePipeline` judges the mentions of a note, with the same score. A mention alone is scored
    by its candidates.
    """

    def link(
        self, mentions: Sequence[str | Mention], contexts: Sequence[str] | None = None, k: int | None = None
    ) -> list[Link]:
        """Link n mentions, with or without n texts around them, as :meth:`medlink.linking.Linker.link` does."""
        if contexts is None or isinstance(mentions, str) or len(contexts) != len(mentions):
            return super().link(mentions, contexts, k)
        judged = self._judged(mentions, contexts)
        told = [judged[at].mention if at in judged else mention for at, mention in enumerate(mentions)]
        around = [judged[at].context if at in judged else context for at, context in enumerate(contexts)]
        return super().link(told, around, k)

    def _judged(self, mentions: Sequence[str | Mention], contexts: Sequence[str]) -> dict[int, ReadMention]:
        # the numbers of mentions by language, context and place
        given: dict[str, dict[str, dict[Span, list[int]]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
        for at, (one, context) in enumerate(zip(mentions, contexts, strict=True)):
            mention = one if isinstance(one, Mention) else Mention(one)
            language = mention.language or self.options.language
            known = mention.likely is not None or mention.taught is not None
            if language is None or known or not isinstance(mention.text, str) or not mention.text.strip():
                continue
            place = re.search(rf"(?<!\w){re.escape(mention.text.strip())}(?!\w)", context)
            if place is not None:
                given[language][context][place.span()].append(at)
        found: dict[int, ReadMention] = {}
        for language, texts in given.items():
            read = self._reader(language).judge(list(texts), [list(spans) for spans in texts.values()])
            for spans, ones in zip(texts.values(), read, strict=True):
                for numbers, judged in zip(spans.values(), ones, strict=True):
                    for at in numbers:
                        said, found[at] = mentions[at], judged
                        if isinstance(said, Mention) and said.expanded is not None:  # the caller's long form stands
                            found[at] = replace(judged, mention=replace(said, likely=None))
        return found

    @cached_property
    def _reader(self) -> Callable[[str], TextReader]:
        return cache(lambda tag: TextReader(self.bundle, tag, FinderOptions(qualifiers=False), linker=self))


def load(bundle: str | Path, **options: Any) -> Linker:
    """Open a bundle for linking: memory-mapped, read-only, in well under a second.

    Args:
        bundle: a folder made by ``medlink index build``.
        options: fields of :class:`medlink.LinkOptions`, such as ``threshold``, ``language`` and ``ranker``.

    Raises:
        BundleError: the parts of the bundle are missing or do not belong together.
        ConfigError: an option is unknown or out of range, or names what the bundle does not have.
    """
    return Linker(bundle, **options)
