"""The lexicon forms of encoders and bundles: one copy in a process for folders with equal files."""

from __future__ import annotations

import hashlib
from pathlib import Path
from weakref import WeakValueDictionary

from medlink.language.lexicon.forms import MEANINGS, TRIE, LexiconForms

_open_forms: WeakValueDictionary[str, LexiconForms] = WeakValueDictionary()


def load_shared_forms(folder: Path) -> LexiconForms:
    """Open lexicon forms, as :meth:`LexiconForms.load`, unless equal ones are open.

    An encoder, the index of its bundle, and other bundles have copies of the same files. Sharing them saves memory, and
    half a second for the filters of misspelt words.
    """
    digest = hashlib.sha256()
    for name in (TRIE, MEANINGS):
        try:
            content = (folder / name).read_bytes()
        except OSError:
            return LexiconForms.load(folder)  # raises the error
        digest.update(hashlib.sha256(content).digest())
    found = _open_forms.get(digest.hexdigest())
    if found is None:
        found = _open_forms[digest.hexdigest()] = LexiconForms.load(folder)
    return found
