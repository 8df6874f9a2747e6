"""What a trainer wrote: the card of an encoder, the recipe on it, and its fingerprint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from medlink.models import load_encoder


def card(folder: Path) -> str:
    return (folder / "README.md").read_text("utf-8")


def recipe_on_card(folder: Path) -> dict[str, Any]:
    recipe: dict[str, Any] = json.loads(card(folder).split("```json")[1].split("```")[0])
    return recipe


def fingerprint(folder: Path) -> str:
    return load_encoder(folder).fingerprint


def missing(folder: Path, *facts: str) -> list[str]:
    """Facts that are not on the card."""
    text = card(folder)
    return [fact for fact in facts if fact not in text]
