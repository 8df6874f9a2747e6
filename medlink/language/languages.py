"""Languages are data: a folder each, named by its tag, with one small JSON file per subject.

``resources/language`` holds the folders that medlink ships. Folders of further languages are named in the environment
variable ``MEDLINK_LANGUAGES`` (a list as ``PATH`` is one, which worker processes inherit) or by :func:`add_folder`. No
file is needed: a language without ``guards.json`` has no guards. In a file every field stands as
``{"value": ..., "source": "where the value is from"}``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, lru_cache, wraps
from importlib import resources
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from runpy import run_path
from typing import Annotated, TypeVar

import Stemmer
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, field_validator

from medlink.errors import ConfigError, InputError
from medlink.files.json import read_json
from medlink.files.problems import Problems
from medlink.files.tables import open_table
from medlink.language.tags import base, language_tag

VARIABLE = "MEDLINK_LANGUAGES"
"""Environment variable that lists folders of further languages."""

REFERENCE = "en"
"""The language whose guards and acts say which values there are in all."""

SHIPPED = Path(str(resources.files("medlink"))) / "resources" / "language"
"""The folder of the languages that medlink ships, and of what is true of all."""
_Patterns = dict[str, re.Pattern[str]]
_AN_ENTRY = 'write the file as {"FIELD": {"value": VALUE, "source": "where it is from"}}'


def any_of(patterns: Iterable[re.Pattern[str]]) -> re.Pattern[str]:
    """One pattern that finds what any of them does, nothing where there is none."""
    return re.compile("|".join(f"(?:{pattern.pattern})" for pattern in patterns) or "(?!)")


_Any = Annotated[re.Pattern[str], BeforeValidator(lambda patterns: any_of(map(re.compile, patterns)))]
"""A list of patterns in a file, one pattern here."""
_NOTHING = any_of(())


class Rules(BaseModel):
    """Base of what one file of a language says; a field that the file leaves out has its default."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Forms(Rules):
    """``forms.json``: how words of a language, in the exact form, are inflected and spelt.

    ``stemmer`` is a Snowball algorithm. ``numeral_cues`` are words before a roman numeral of one letter. ``endings``
    are mended before a word is stemmed, ``transcriptions`` are other spellings of letters; both are pairs of a pattern
    and what takes its place. ``inflections`` are the endings that two forms of one word may differ by. ``letters``
    count apart though the exact form folds them. ``links`` stand between a noun and what follows it in a compound; a
    language without any has no compounds of nouns. With ``bare_predicates`` adjectives have no ending where they say
    something of a noun with a verb.
    """

    stemmer: str = ""
    numeral_cues: frozenset[str] = frozenset()
    endings: tuple[tuple[re.Pattern[str], str], ...] = ()
    inflections: frozenset[str] = frozenset({""})
    transcriptions: tuple[tuple[re.Pattern[str], str], ...] = ()
    letters: frozenset[str] = frozenset()
    links: tuple[str, ...] = ()
    bare_predicates: bool = False

    @field_validator("stemmer")
    @classmethod
    def _is_known(cls, stemmer: str) -> str:
        if stemmer not in Stemmer.algorithms():
            raise ValueError(f"{stemmer!r} is none of {', '.join(Stemmer.algorithms())}")
        return stemmer


class Articles(Rules):
    """``articles.json``: ``small_words`` of names, in the exact form, that have no letter in an abbreviation, and
    ``elision``, what an apostrophe cuts off before a word, such as French *l* and *qu*."""

    small_words: frozenset[str] = frozenset()
    elision: frozenset[str] = frozenset()


class Words(Rules):
    """``words``, as they are written: before the name of a person (``persons.json``), single letters that are words and
    tell no names apart (``markers.json``), or case folded, what alone is no mention (``stop_words.json``)."""

    words: frozenset[str] = frozenset()


class Persons(Words):
    """``persons.json``: ``words`` before the name of a person, and ``births`` behind it, before a date of birth."""

    births: tuple[str, ...] = ()


class Negation(Rules):
    """Words ``before`` what they negate, words ``between`` the two, prefixes, and patterns of words without one."""

    before: frozenset[str] = frozenset()
    between: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()
    exceptions: _Any = _NOTHING


class GuardRules(Rules):
    """``guards.json``: words that part terms, as patterns in the exact form.

    ``kinds`` holds the patterns of each value of each kind; in the file each kind is a field. A kind of ``company``
    counts only in terms with a word of that pattern; ``unread`` is cut out of a term as it is written; ``only_here``
    are words that count in terms of a stated language alone; ``letter_words`` are single letters that are words unless
    they end a term or are capitals.
    """

    kinds: dict[str, _Patterns] = {}
    company: _Patterns = {}
    negation: Negation = Negation()
    unread: _Any = _NOTHING
    only_here: frozenset[str] = frozenset()
    letter_words: frozenset[str] = frozenset()

    @cached_property
    def some(self) -> re.Pattern[str]:
        """All values as one pattern."""
        return any_of(pattern for patterns in self.kinds.values() for pattern in patterns.values())


class ActRules(Rules):
    """``acts.json``: patterns of examinations, operations and functions in the exact form.

    ``general`` acts may be any other; ``unread`` is cut out of a term as it is written; ``halves`` are words that are
    an act only with the word beside them.
    """

    acts: _Patterns = {}
    general: frozenset[str] = frozenset()
    unread: _Any = _NOTHING
    halves: frozenset[str] = frozenset()

    @cached_property
    def some(self) -> re.Pattern[str]:
        """All acts as one pattern."""
        return any_of(self.acts.values())


class Row(dict[str, str]):
    """A row by columns, without blanks around its cells."""

    def __init__(self, cells: Iterator[tuple[str, str]], path: Path, line: int) -> None:
        super().__init__(cells)
        self.path, self.line = path, line

    def error(self, message: str, remedy: str) -> InputError:
        """What to raise where a cell is wrong."""
        return InputError(message, path=self.path, line=self.line, remedy=remedy)


def rows(path: Path | None, *columns: str, in_front: bool = False) -> Iterator[Row]:
    """Rows of a table with some columns, the first of them ``in_front``; none without a path.

    Raises:
        InputError: a column is missing, or a row has too many or too few cells.
    """
    if path is None:
        return
    table = open_table(path, Problems(0, adjustable=False), separator="\t")
    table.places(columns)
    if in_front and table.header[0] != columns[0]:
        raise table.error(f"the first column is {table.first[0]!r}", f"begin with the column {columns[0]}")
    for line, cells in table.rows:
        yield Row(zip(table.header, map(str.strip, cells), strict=True), path, line)


def alternatives(cell: str) -> list[str]:
    """The phrases of a cell, between bars that stand outside of brackets."""
    found, depth = [""], 0
    for letter in cell:
        depth += (letter == "[") - (letter == "]")
        if letter == "|" and not depth:
            found.append("")
        else:
            found[-1] += letter
    return [one.strip() for one in found]


_R = TypeVar("_R", bound=Rules)
_T = TypeVar("_T")


class Language:
    """One language: the files of its folder, each read when it is first asked for; all defaults without a folder."""

    def __init__(self, tag: str, folder: Path | None) -> None:
        self.tag, self._folder = tag, folder

    def file(self, name: str) -> Path | None:
        """A file of the folder, given without ``.json``; ``None`` where there is none."""
        return self._path(f"{name}.json")

    def table(self, name: str) -> Path | None:
        """A table of the folder, given without ``.tsv``; ``None`` where there is none."""
        return self._path(f"{name}.tsv")

    def _path(self, name: str) -> Path | None:
        path = self._folder and self._folder / name
        return path if path and path.is_file() else None

    def read(self, name: str, model: type[_R]) -> _R:
        """What a file of the folder says, or the defaults of ``model`` where there is no such file.

        Raises:
            ConfigError: the file is no JSON, or a field is unknown, without a source, or of another form.
        """
        path = self.file(name)
        if path is None:
            return model()
        try:
            raw = read_json(path)
        except (OSError, ValueError) as error:
            remedy = "mend the file, which is JSON in UTF-8, or take it away"
            raise ConfigError(f"cannot be read: {error}", path=path, remedy=remedy) from None
        if not isinstance(raw, dict):
            raise ConfigError("a JSON object expected", path=path, remedy=_AN_ENTRY)
        fields = {}
        for field, entry in raw.items():
            if not isinstance(entry, dict) or entry.keys() != {"value", "source"} or not entry["source"]:
                message = f"{field}: an object with 'value' and 'source' expected, and no more"
                raise ConfigError(message, path=path, remedy=_AN_ENTRY)
            fields[field] = entry["value"]
        if model is GuardRules:
            kinds = [field for field in fields if field not in model.model_fields]
            fields["kinds"] = {kind: fields.pop(kind) for kind in kinds}
        try:
            return model.model_validate(fields)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(str(part) for part in first["loc"]).removeprefix("kinds.")
            message = f"{field}: {first['msg'].removeprefix('Value error, ')}"
            remedy = f"write {field} as in {SHIPPED / REFERENCE / path.name}"
            if first["type"] == "extra_forbidden":
                message, remedy = f"unknown field {field!r}", f"one of {', '.join(model.model_fields)}"
            raise ConfigError(message, path=path, remedy=remedy) from None

    @cached_property
    def forms(self) -> Forms:
        """Inflection and spelling."""
        return self.read("forms", Forms)

    @cached_property
    def articles(self) -> Articles:
        """Small words and elision."""
        return self.read("articles", Articles)

    def words(self, name: str) -> frozenset[str]:
        """The words of a file that has nothing else (:class:`Words`)."""
        return self.read(name, Words).words

    @cached_property
    def guards(self) -> GuardRules:
        """Words that part terms; their values are among those of English, for terms of all languages are compared."""
        rules = self.read("guards", GuardRules)
        for kind, values in rules.kinds.items():
            self._check("guards", kind, values, lambda kind: language_data(REFERENCE).guards.kinds.get(kind, {}))
        return rules

    @cached_property
    def acts(self) -> ActRules:
        """Examinations, operations and functions, among those of English."""
        rules = self.read("acts", ActRules)
        self._check("acts", "acts", rules.acts, lambda _: language_data(REFERENCE).acts.acts)
        return rules

    def _check(self, name: str, field: str, values: _Patterns, of: Callable[[str], _Patterns]) -> None:
        known = values if self.tag == REFERENCE else of(field)
        if unknown := next((value for value in values if value not in known), None):
            raise ConfigError(
                f"{field}: {unknown!r} is no value that terms are compared by",
                path=self.file(name),
                remedy=f"one of {', '.join(known)}" if known else "leave the field out",
            )


def languages() -> tuple[str, ...]:
    """Tags of the languages that have a folder, in alphabetical order."""
    return tuple(_found(os.environ.get(VARIABLE, "")))


def shipped_languages() -> tuple[Language, ...]:
    """The languages that medlink ships."""
    return tuple(_found("").values())


def language_data(language: str) -> Language:
    """Data of a language (BCP 47; a region is ignored); all defaults where it has no folder."""
    return _found(os.environ.get(VARIABLE, "")).get(base(language), _UNKNOWN)


def per_language(read: Callable[[Language], _T]) -> Callable[[str], _T]:
    """A function of the data of a language as one of its tag (BCP 47), which is worked out once for each language."""
    kept = lru_cache(maxsize=8)(read)

    @wraps(read)
    def of(language: str) -> _T:
        return kept(language_data(language))

    return of


def guarded(language: str) -> tuple[Language, ...]:
    """Languages by whose guards a term is read: its own, or all that have guards where it names none with a folder."""
    found = _found(os.environ.get(VARIABLE, ""))
    own = found.get(base(language))
    return (own,) if own else tuple(data for data in found.values() if data.file("guards"))


def stop_words(language: str) -> frozenset[str]:
    """Words that alone are no mention, case folded: of the language's folder, else those that spaCy has for it."""
    data = language_data(language)
    if data.file("stop_words"):
        return data.words("stop_words")
    # of spaCy only this file is run: where torch is installed, all of spaCy takes five seconds
    spacy = find_spec("spacy")
    path = Path(str(spacy and spacy.origin)).parent / "lang" / base(language) / "stop_words.py"
    return frozenset(map(str.casefold, run_path(str(path))["STOP_WORDS"])) if path.is_file() else frozenset()


def add_folder(path: str | PathLike[str]) -> None:
    """Add a folder of language folders, for this process and those that it starts.

    Raises:
        ConfigError: there is no such folder, or one of its folders is of no new language.
    """
    added = os.pathsep.join(filter(None, (os.environ.get(VARIABLE, ""), str(Path(path).resolve()))))
    _found(added)
    os.environ[VARIABLE] = added


@lru_cache(maxsize=8)
def _found(further: str) -> dict[str, Language]:
    found: dict[str, Language] = {}
    for folder in (SHIPPED, *(Path(path) for path in further.split(os.pathsep) if path)):
        if not folder.is_dir():
            message = f"{VARIABLE} lists this folder, which is not there"
            raise ConfigError(message, path=folder, remedy="name the folder above that of the tag")
        for path in sorted(path for path in folder.iterdir() if path.is_dir() and path.name[0] not in "._"):
            if language_tag(path.name) != path.name or "-" in path.name:
                message = "a folder of a language is named by its tag, such as fr"
                raise ConfigError(message, path=path, remedy="name it so, or move it away")
            if path.name in found:
                remedy = f"keep one of the two; the other is {found[path.name]._folder}"
                raise ConfigError(f"there is another folder of {path.name}", path=path, remedy=remedy)
            found[path.name] = Language(path.name, path)
    return dict(sorted(found.items()))


_UNKNOWN = Language("", None)
