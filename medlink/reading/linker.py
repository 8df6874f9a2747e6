"""``Linker``: mentions to ranked concepts; in a context a mention has the score that a reader of the note gives it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
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
        told = [judged[at].found.mention if at in judged else mention for at, mention in enumerate(mentions)]
        around = [judged[at].found.context if at in judged else context for at, context in enumerate(contexts)]
        return super().link(told, around, k)

    def _judged(self, mentions: Sequence[str | Mention], contexts: Sequence[str]) -> dict[int, ReadMention]:
        """The mentions that stand in their contexts, by number, as a reader of notes judges them."""
        given: dict[str, dict[str, dict[Span, list[int]]]] = {}
        for at, (mention, context) in enumerate(zip(mentions, contexts, strict=True)):
            text = mention.text if isinstance(mention, Mention) else mention
            known = isinstance(mention, Mention) and (mention.likely is not None or mention.taught is not None)
            language = (mention.language if isinstance(mention, Mention) else None) or self.options.language
            if language is None or known or not isinstance(text, str) or not text.strip():
                continue
            place = re.search(rf"(?<!\w){re.escape(text.strip())}(?!\w)", context)
            if place is not None:
                given.setdefault(language, {}).setdefault(context, {}).setdefault(place.span(), []).append(at)
        found: dict[int, ReadMention] = {}
        for language, texts in given.items():
            read = self._reader(language).judge(list(texts), [list(spans) for spans in texts.values()])
            for spans, ones in zip(texts.values(), read, strict=True):
                for numbers, one in zip(spans.values(), ones, strict=True):
                    found.update(dict.fromkeys(numbers, one))
        return {at: self._as_given(mentions[at], one) for at, one in found.items()}

    @cached_property
    def _readers(self) -> dict[str, TextReader]:
        """What reads contexts, by their language."""
        return {}

    def _reader(self, language: str) -> TextReader:
        if language not in self._readers:
            options = FinderOptions(qualifiers=False)
            self._readers[language] = TextReader(self.bundle, language, options, linker=self)
        return self._readers[language]

    @staticmethod
    def _as_given(mention: str | Mention, one: ReadMention) -> ReadMention:
        """A judged mention with the long form that the caller gave, where there is one."""
        if isinstance(mention, str) or mention.expanded is None:
            return one
        return replace(one, found=replace(one.found, mention=replace(mention, likely=None)))


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
