"""The data of languages: each language has a folder, named by its tag, with a JSON file for each subject.

``resources/language`` holds the shipped folders. The environment variable ``MEDLINK_LANGUAGES`` (a list such as
``PATH``, which worker processes inherit) or :func:`add_folder` names folders of further languages. All files are
optional: a language without ``guards.json`` has no guards. Each field of a file has the form
``{"value": ..., "source": "where the value is from"}``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, lru_cache, wraps
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from runpy import run_path
from typing import Annotated, Any, TypeVar

import Stemmer
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, field_validator

from medlink.errors import ConfigError, InputError
from medlink.files.json import read_json
from medlink.files.problems import Problems
from medlink.files.resources import RESOURCES
from medlink.files.tables import open_table
from medlink.language.tags import base, language_tag

VARIABLE = "MEDLINK_LANGUAGES"
"""Environment variable that lists folders of further languages."""

REFERENCE = "en"
"""The language whose guards and acts define the allowed values."""

SHIPPED = RESOURCES / "language"
"""The folder of the shipped languages, and of the data that all languages share."""
ROW_REMEDY = "correct the row: see docs/reference/language.md"
"""Remedy for an unreadable row in a table of a language."""
_Patterns = dict[str, re.Pattern[str]]
_AN_ENTRY = 'write the file as {"FIELD": {"value": VALUE, "source": "where it is from"}}'


def any_of(patterns: Iterable[re.Pattern[str]]) -> re.Pattern[str]:
    """Join patterns as alternatives; without patterns the result never matches."""
    return re.compile("|".join(f"(?:{pattern.pattern})" for pattern in patterns) or "(?!)")


AnyPattern = Annotated[re.Pattern[str], BeforeValidator(lambda patterns: any_of(map(re.compile, patterns)))]
"""A list of patterns in a file, joined to one pattern."""
NOTHING = any_of(())
_Words = frozenset[str]
_NONE: _Words = frozenset()


class Rules(BaseModel):
    """Base class for the content of one file of a language; a missing field has its default."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class InflectionRules(Rules):
    """``forms.json``: inflection and spelling of the words of a language, in their exact form."""

    stemmer: str = ""  # a Snowball algorithm
    numeral_cues: _Words = _NONE  # words before a roman numeral of one letter
    endings: tuple[tuple[re.Pattern[str], str], ...] = ()  # patterns and replacements, applied before stemming
    inflections: _Words = frozenset({""})  # endings by which two forms of one word may differ
    transcriptions: tuple[tuple[re.Pattern[str], str], ...] = ()  # other spellings of letters, likewise
    letters: _Words = _NONE  # letters that differ in this language although the exact form folds them
    links: tuple[str, ...] = ()  # letters between a noun and the next part of a compound; empty without compounds
    reactions: tuple[str, ...] = ()  # last parts of compounds whose first part is an allergen: "Penicillinallergie"
    bare_predicates: bool = False  # whether predicative adjectives have no ending

    @field_validator("stemmer")
    @classmethod
    def _is_known(cls, stemmer: str) -> str:
        if stemmer not in Stemmer.algorithms():
            raise ValueError(f"{stemmer!r} is none of {', '.join(Stemmer.algorithms())}")
        return stemmer


class ArticleRules(Rules):
    """``articles.json``, in the exact form."""

    small_words: _Words = _NONE  # words that abbreviations skip
    elision: _Words = _NONE  # words elided before an apostrophe, such as French *l* and *qu*


class WordList(Rules):
    """A file with only ``words``: letters that are words (``markers.json``), or stop words (``stop_words.json``)."""

    words: _Words = _NONE


class Persons(WordList):
    """``persons.json``: ``words`` before the name of a person, and ``births`` between the name and a date of birth."""

    births: tuple[str, ...] = ()


class NegationRules(Rules):
    """Negation in ``guards.json``."""

    before: _Words = _NONE  # words that negate the next word
    between: _Words = _NONE  # words to skip between the two
    prefixes: tuple[str, ...] = ()  # negating prefixes
    endings: tuple[str, ...] = ()  # negating endings, which also negate the word before them: "pain free"
    exceptions: AnyPattern = NOTHING  # words that only seem to have such a prefix


class GuardRules(Rules):
    """``guards.json``: words that distinguish terms, as patterns in the exact form."""

    kinds: dict[str, _Patterns] = {}  # patterns by kind and value; in the file each kind is a field
    company: _Patterns = {}  # pattern of a word that a term needs for a kind to count
    negation: NegationRules = NegationRules()
    unread: AnyPattern = NOTHING  # text to cut from the written term
    only_here: _Words = _NONE  # words that count only in terms of a stated language
    letter_words: _Words = _NONE  # single letters that are words unless they end a term or are capitals
    conjunction: AnyPattern = NOTHING  # joins two terms, in the written term
    redundant: _Words = _NONE  # beginnings of words that add nothing: a hyperkyphosis is a kyphosis

    @cached_property
    def some(self) -> re.Pattern[str]:
        """One pattern that matches any value of any kind."""
        return any_of(pattern for patterns in self.kinds.values() for pattern in patterns.values())


class ActRules(Rules):
    """``acts.json``: examinations, operations and functions, as patterns in the exact form."""

    acts: _Patterns = {}
    general: _Words = _NONE  # acts that may stand for any act
    unread: AnyPattern = NOTHING  # text to cut from the written term
    halves: _Words = _NONE  # words that are an act only together with the word beside them

    @cached_property
    def some(self) -> re.Pattern[str]:
        """One pattern that matches any of the acts."""
        return any_of(self.acts.values())


class Row(dict[str, str]):
    """A row of a table: its cells by column, without surrounding blanks."""

    def __init__(self, cells: Iterator[tuple[str, str]], path: Path, line: int) -> None:
        super().__init__(cells)
        self.path, self.line = path, line

    def error(self, message: str, remedy: str) -> InputError:
        return InputError(message, path=self.path, line=self.line, remedy=remedy)


def rows(path: Path | None, *columns: str, in_front: bool = False) -> Iterator[Row]:
    """Read the rows of a table, none without a path.

    Raises InputError if one of ``columns`` is missing or its first is not ``in_front``, or a row has other cells.
    """
    if path is None:
        return
    table = open_table(path, Problems(0, adjustable=False), separator="\t")
    table.column_indices(columns)
    if in_front and table.header[0] != columns[0]:
        raise table.error(f"the first column is {table.first[0]!r}", f"begin with the column {columns[0]}")
    for line, cells in table.rows:
        yield Row(zip(table.header, map(str.strip, cells), strict=True), path, line)


def alternatives(cell: str) -> list[str]:
    """Split a cell at the vertical bars that are not inside brackets."""
    phrases, depth = [""], 0
    for letter in cell:
        depth += (letter == "[") - (letter == "]")
        if letter == "|" and not depth:
            phrases.append("")
        else:
            phrases[-1] += letter
    return [phrase.strip() for phrase in phrases]


_R = TypeVar("_R", bound=Rules)
_T = TypeVar("_T")


class Language:
    """The data of one language; each file is read when first used. A language without a folder has all defaults."""

    def __init__(self, tag: str, folder: Path | None) -> None:
        self.tag, self._folder = tag, folder

    def file(self, name: str, ending: str = "json") -> Path | None:
        """Return the path of a file, named without its ending; ``None`` if the folder lacks it."""
        path = self._folder and self._folder / f"{name}.{ending}"
        return path if path and path.is_file() else None

    def table(self, name: str) -> Path | None:
        return self.file(name, "tsv")

    def read(self, name: str, model: type[_R]) -> _R:
        """Read a file of the folder, or return the defaults of ``model`` if the folder lacks the file.

        Raises:
            ConfigError: the file is not JSON, or a field is unknown, without a source, or of another type.
        """
        path = self.file(name)
        if path is None:
            return model()
        fields = self._read_fields(path)
        if model is GuardRules:
            kinds = [field for field in fields if field not in model.model_fields]
            fields["kinds"] = {kind: fields.pop(kind) for kind in kinds}
        try:
            return model.model_validate(fields)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(map(str, first["loc"])).removeprefix("kinds.")
            message = f"{field}: {first['msg'].removeprefix('Value error, ')}"
            remedy = f"write {field} as in {SHIPPED / REFERENCE / path.name}"
            if first["type"] == "extra_forbidden":
                known = (entry.alias or name for name, entry in model.model_fields.items())
                message, remedy = f"unknown field {field!r}", f"one of {', '.join(known)}"
            raise ConfigError(message, path=path, remedy=remedy) from None

    @staticmethod
    def _read_fields(path: Path) -> dict[str, Any]:
        try:
            raw = read_json(path)
        except (OSError, ValueError) as error:
            remedy = "correct the file, which is JSON in UTF-8, or remove it"
            raise ConfigError(f"cannot be read: {error}", path=path, remedy=remedy) from None
        if not isinstance(raw, dict):
            raise ConfigError("a JSON object expected", path=path, remedy=_AN_ENTRY)
        fields: dict[str, Any] = {}
        for field, entry in raw.items():
            if not isinstance(entry, dict) or entry.keys() != {"value", "source"} or not entry["source"]:
                message = f"{field}: an object with 'value' and 'source' expected, and no more"
                raise ConfigError(message, path=path, remedy=_AN_ENTRY)
            fields[field] = entry["value"]
        return fields

    @cached_property
    def forms(self) -> InflectionRules:
        return self.read("forms", InflectionRules)

    @cached_property
    def articles(self) -> ArticleRules:
        return self.read("articles", ArticleRules)

    def words(self, name: str) -> frozenset[str]:
        """Return the words of a :class:`WordList` file."""
        return self.read(name, WordList).words

    @cached_property
    def guards(self) -> GuardRules:
        """Words that distinguish terms; their values must occur in English, so that languages can be compared."""
        rules = self.read("guards", GuardRules)
        if self.tag != REFERENCE:
            known = language_data(REFERENCE).guards.kinds
            for kind, values in rules.kinds.items():
                self._check("guards", kind, values, known.get(kind, {}))
        return rules

    @cached_property
    def acts(self) -> ActRules:
        """Examinations, operations and functions; English must have each, so that languages can be compared."""
        rules = self.read("acts", ActRules)
        if self.tag != REFERENCE:
            self._check("acts", "acts", rules.acts, language_data(REFERENCE).acts.acts)
        return rules

    def _check(self, name: str, field: str, values: _Patterns, known: _Patterns) -> None:
        if unknown := next((value for value in values if value not in known), None):
            raise ConfigError(
                f"{field}: {unknown!r} is not a value by which terms are compared",
                path=self.file(name),
                remedy=f"one of {', '.join(known)}" if known else "leave the field out",
            )


def languages() -> tuple[str, ...]:
    return tuple(_all_languages())


def shipped_languages() -> tuple[Language, ...]:
    return tuple(_find_languages("").values())


def language_data(language: str) -> Language:
    """Return the data of a language (BCP 47, region ignored); a language without a folder has all defaults."""
    return _all_languages().get(base(language), _UNKNOWN)


def per_language(read: Callable[[Language], _T]) -> Callable[[str], _T]:
    """Turn a function of a :class:`Language` into a cached function of its tag (BCP 47)."""
    cached = lru_cache(maxsize=8)(read)

    @wraps(read)
    def of(language: str) -> _T:
        return cached(language_data(language))

    return of


def guarded(language: str) -> tuple[Language, ...]:
    """Return the languages whose guards apply to a term: its own language if it has a folder, else all languages with
    guards.
    """
    every = _all_languages()
    own = every.get(base(language))
    return (own,) if own else tuple(data for data in every.values() if data.file("guards"))


def stop_words(language: str) -> frozenset[str]:
    """Return the case-folded words that alone are not a mention, from the language's folder, else from spaCy."""
    data = language_data(language)
    if data.file("stop_words"):
        return data.words("stop_words")
    # runs only this file: importing all of spaCy takes five seconds where torch is installed
    spacy = find_spec("spacy")
    path = Path(str(spacy and spacy.origin)).parent / "lang" / base(language) / "stop_words.py"
    return frozenset(map(str.casefold, run_path(str(path))["STOP_WORDS"])) if path.is_file() else frozenset()


def add_folder(path: str | PathLike[str]) -> None:
    """Add a folder of language folders, for this process and the processes that it starts.

    Raises:
        ConfigError: there is no such folder, or a folder in it does not belong to a new language.
    """
    added = os.pathsep.join(filter(None, (os.environ.get(VARIABLE, ""), str(Path(path).resolve()))))
    _find_languages(added)
    os.environ[VARIABLE] = added


def _all_languages() -> dict[str, Language]:
    return _find_languages(os.environ.get(VARIABLE, ""))


@lru_cache(maxsize=8)
def _find_languages(further: str) -> dict[str, Language]:
    by_tag: dict[str, Language] = {}
    for folder in (SHIPPED, *(Path(path) for path in further.split(os.pathsep) if path)):
        if not folder.is_dir():
            message = f"{VARIABLE} lists this folder, which is not there"
            raise ConfigError(message, path=folder, remedy="name the folder above that of the tag")
        for path in sorted(path for path in folder.iterdir() if path.is_dir() and path.name[0] not in "._"):
            if language_tag(path.name) != path.name or "-" in path.name:
                message = "a folder of a language is named by its tag, such as fr"
                raise ConfigError(message, path=path, remedy="rename it, or move it away")
            if path.name in by_tag:
                remedy = f"keep one of the two; the other is {by_tag[path.name]._folder}"
                raise ConfigError(f"there is another folder of {path.name}", path=path, remedy=remedy)
            by_tag[path.name] = Language(path.name, path)
    return dict(sorted(by_tag.items()))


_UNKNOWN = Language("", None)
