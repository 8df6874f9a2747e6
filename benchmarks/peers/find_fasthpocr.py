"""FastHPOCR with its own settings: English words by families of one meaning, in any order (MIT).

It takes its names from HPO's OBO file, which is written here from the English names: the label, synonyms and, for what
is a phenotype, the place below *Phenotypic abnormality*, for it takes nothing else. It gives no scores.
"""

from __future__ import annotations

from collections import defaultdict
from importlib.metadata import version
from pathlib import Path

from FastHPOCR.cr.CRIndexKB import CRIndexKB
from FastHPOCR.HPOAnnotator import HPOAnnotator
from FastHPOCR.IndexHPO import IndexHPO
from protocol import Find, Name, serve

_ROOT = "HP:0000118"


def build(names: list[Name], folder: Path) -> None:
    """Write the OBO file and FastHPOCR's index of it."""
    concepts = defaultdict(list)
    for name in names:
        if name["language"] == "en":
            concepts[name["concept_id"]].append(name)
    with open(folder / "hp.obo", "w", encoding="utf-8") as file:
        file.write("format-version: 1.2\nontology: hp\n\n")
        for concept, (label, *synonyms) in concepts.items():
            file.write(f"[Term]\nid: {concept}\nname: {label['name']}\n")
            for synonym in synonyms:
                text = synonym["name"].replace("\\", r"\\").replace('"', r"\"")
                file.write(f'synonym: "{text}" EXACT []\n')
            if label["semantic_type"] == "phenotype":
                file.write(f"is_a: {_ROOT}\n")
            file.write("\n")
    families: dict[str, list[str]] = defaultdict(list)

    def words(_: CRIndexKB, family: str, all_words: dict[str, str]) -> list[str]:
        if not families:
            for word, own in all_words.items():
                families[own].append(word)
        return list(families[family])

    CRIndexKB.compileClusterList = words
    IndexHPO(str(folder / "hp.obo"), str(folder)).index()


def opened(folder: Path, language: str) -> Find:
    """Open its index."""
    annotator = HPOAnnotator(str(folder / "hp.index"))

    def find(text: str) -> list[tuple[int, int, str, float]]:
        return [(a.getStartOffset(), a.getEndOffset(), a.getHPOUri(), 1.0) for a in annotator.annotate(text)]

    return find


if __name__ == "__main__":
    serve(f"FastHPOCR {version('FastHPOCR')}", build, opened)
