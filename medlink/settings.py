"""Options with default, range and meaning, declared once for library, spaCy component and command line."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from medlink.errors import ConfigError

POOLINGS = ("cls", "mean")
"""Poolings of token vectors: the first vector, or the mean."""
_WORDS = {
    "greater than or equal to": "at least", "less than or equal to": "at most", "greater than": "above",
    "less than": "below", "a valid integer": "a whole number", "a valid number": "a number",
    "a valid string": "a text in quotes", "a valid boolean": "true or false", "a valid list": "a list",
    "a valid tuple": "a list", "a valid dictionary": "a section",
}  # fmt: skip


def option(default: Any, description: str, **constraints: Any) -> Any:
    """Declare a field of :class:`Settings`; the command line shows the description, and pydantic checks constraints."""
    return Field(default=default, description=description, **constraints)


class Settings(BaseModel):
    """Base of every group of options and every training recipe: frozen, typed, validated.

    Declare a field as ``name: int = option(5, "...", ge=1)``. Raises :class:`ConfigError` for the
    first value with an unknown name, of the wrong type or out of range.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise self._error(error) from None

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some values changed, validated again."""
        return type(self)(**{**dict(self), **changes})

    def to_dict(self) -> dict[str, Any]:
        return self.model_dump(mode="json")

    @classmethod
    def _error(cls, error: ValidationError) -> ConfigError:
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
            # a union has an error for each member
            messages = [each["msg"] for each in error.errors() if each["loc"][:1] == (name,)]
            for theirs, ours in {"Input should be ": "", **_WORDS}.items():
                messages = [message.replace(theirs, ours) for message in messages]
            expected = " or ".join(dict.fromkeys(messages))
        default = None if field is None or field.is_required() else field.get_default(call_default_factory=True)
        remedy = f"leave {name} out" + ("" if default in (None, (), "") else f" for {default}")
        if field is not None and field.is_required():
            remedy = "give such a value"
        return ConfigError(f"{name} is {first['input']!r}, {expected} expected", remedy=remedy)


def expectation(field: FieldInfo) -> str:
    """Return the range of a field in words, such as ``at least 0 and at most 1``; empty without a range."""
    words = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
    bounds = [(words[name], getattr(bound, name, None)) for bound in field.metadata for name in words]
    return " and ".join(
        f"{word} {number if isinstance(number, int) else f'{number:g}'}"
        for word, number in bounds
        if number is not None
    )
