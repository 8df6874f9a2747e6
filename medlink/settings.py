"""Settings: options declared once, with default, range and meaning, for library, spaCy component and command line."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from medlink.errors import ConfigError

POOLINGS = ("cls", "mean")
"""How the vectors of the tokens of a text become one: that of the first token, or the mean of all."""
_WORDS = {
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "greater than": "above",
    "less than": "below",
    "a valid integer": "a whole number",
    "a valid number": "a number",
    "a valid string": "a text in quotes",
    "a valid boolean": "true or false",
    "a valid list": "a list",
    "a valid tuple": "a list",
    "a valid dictionary": "a section",
}


class Settings(BaseModel):
    """Base of every group of options and of every training recipe: frozen, typed, checked when it is made.

    A field is declared as ``name: Annotated[int, Field(ge=1)] = 5`` with its meaning as ``Field(description=...)``.
    Raises :class:`ConfigError` for the first value of another type or out of its range, or unknown name.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise self._refused(error) from None

    def replace(self, **changes: Any) -> Self:
        """These settings with other values for some, checked anew."""
        return type(self)(**{**dict(self), **changes})

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return self.model_dump(mode="json")

    @classmethod
    def _refused(cls, error: ValidationError) -> ConfigError:
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else cls.__name__
        if first["type"] == "extra_forbidden":
            return ConfigError(f"unknown option {name!r}", remedy=f"one of {', '.join(cls.model_fields)}")
        if first["type"] == "missing":
            return ConfigError(f"{name} is missing", remedy="add it")
        if first["type"] == "value_error":
            return ConfigError(str(first["ctx"]["error"]), remedy="change it, or leave it out")
        field = cls.model_fields.get(name)
        of_range = first["type"].startswith(("greater_than", "less_than", "finite_number"))
        expected = expectation(field) if field is not None and of_range else ""
        if not expected:
            # of a union each member says what it expects
            said = [_expected(one["msg"]) for one in error.errors() if one["loc"][:1] == (name,)]
            expected = " or ".join(dict.fromkeys(said))
        default = None if field is None or field.is_required() else field.get_default(call_default_factory=True)
        remedy = f"leave {name} out" + ("" if default in (None, (), "") else f" for {default}")
        if field is not None and field.is_required():
            remedy = "give such a value"
        return ConfigError(f"{name} is {first['input']!r}, {expected} expected", remedy=remedy)


def expectation(field: FieldInfo) -> str:
    """What a field's range says in words, such as ``at least 0 and at most 1``; empty where it has none."""
    words = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
    parts = [
        f"{words[name]} {_number(getattr(bound, name))}"
        for bound in field.metadata
        for name in words
        if getattr(bound, name, None) is not None
    ]
    return " and ".join(parts)


def _number(bound: float) -> str:
    return str(bound) if isinstance(bound, int) else f"{bound:g}"


def _expected(message: str) -> str:
    said = message.removeprefix("Input should be ")
    for theirs, ours in _WORDS.items():
        said = said.replace(theirs, ours)
    return said
