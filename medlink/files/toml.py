"""Files that say what to do, in TOML."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from medlink.errors import InputError


def read_toml(path: Path) -> dict[str, Any]:
    """What a TOML file says; an :class:`InputError` where it cannot be read, or is not TOML."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"is not TOML: {error}", path=path, remedy="mend the file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read: {error}", path=path, remedy="name a TOML file in UTF-8") from error
