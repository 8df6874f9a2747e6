"""What ``biolord.py`` trains on and measures: knowledge bases of open terminologies, concepts held out, tasks."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import click
import numpy as np
from clustering import part_of
from numpy.typing import NDArray
from open_data import BENCHMARKS, DATA, TERMINOLOGIES
from open_sources import translations

from medlink.evaluation import Dictionary, Query, correlate, measure_answers, pair_cosines, read_leaves, retrieve
from medlink.evaluation.task import Encode, draw_sample
from medlink.files.atomic import atomic_text_writer
from medlink.files.problems import Problems
from medlink.kb import Input, KnowledgeBase, build_kb
from medlink.language.text import normalise
from medlink.records import Name
from medlink.training.data.rated_pairs import RatedPair, read_pairs

ENGLISH = frozenset({"en"})
FOREIGN = ("de", "es")
_HPO = Input("obograph", TERMINOLOGIES / "hpo/hp.v2024-08-13.json.gz")
_OTHERS = (
    Input("obograph", TERMINOLOGIES / "doid/doid-2018-07-05.json.gz"),
    Input("obograph", TERMINOLOGIES / "ncit_disease/ncit-disease-2018-06-08.json.gz"),
)


@dataclass(frozen=True)
class OpenData:
    """Knowledge bases in a folder, made when first asked for.

    Args:
        work: the folder.
    """

    work: Path

    @cached_property
    def hpo(self) -> Path:
        """HPO alone, with its German and Spanish names."""
        return self._built("hpo", [_HPO])

    @cached_property
    def open(self) -> Path:
        """HPO, DOID and NCIt, with German and Spanish names: what is trained on."""
        return self._built("open", [_HPO, *_OTHERS])

    @cached_property
    def snomed(self) -> Path:
        """The release in the layout of SNOMED CT, which was made of the three."""
        release = self.work / "snomed"
        if not release.exists():
            beside = self.work / "snomed.unpacked"
            with tarfile.open(DATA / "releases/snomed.tar.xz") as archive:
                archive.extractall(beside, filter="data")
            (beside / "snomed").rename(release)
        return self._built("snomed", [Input("rf2", release)], translated=False)

    def _built(self, name: str, inputs: list[Input], *, translated: bool = True) -> Path:
        """A knowledge base of these releases."""
        out = self.work / f"{name}.sqlite"
        if out.exists():
            return out
        if translated:
            with KnowledgeBase(self._built(f"{name}-en", inputs, translated=False)) as kb:
                rows = sorted({row for row in translations(TERMINOLOGIES) if row[0] in kb})
            table = self.work / f"{name}-names.tsv"
            with open(table, "w", encoding="utf-8") as file:
                file.write("concept_id\tname\tlanguage\n")
                file.writelines(f"{concept}\t{' '.join(text.split())}\t{tag}\n" for concept, text, tag, _ in rows)
            inputs = [*inputs, Input("table", table)]
        build_kb(out, inputs)
        return out

    @cached_property
    def sentences(self) -> Path:
        """A table of alignments: the sentences of the STS benchmark's train part and their translations."""
        parts = {tag: read_pairs(BENCHMARKS / f"stsb/stsb-{tag}-train.csv", Problems()) for tag in ("en", *FOREIGN)}
        rows: dict[tuple[str, str, str], None] = {}
        for tag in FOREIGN:
            for english, translated in zip(parts["en"], parts[tag], strict=True):
                rows.setdefault((english.text_1, translated.text_1, tag))
                rows.setdefault((english.text_2, translated.text_2, tag))
        table = self.work / "sentences.tsv"
        with atomic_text_writer(table, "the sentences") as file:
            file.write("source\ttarget\tlanguage\n")
            file.writelines("\t".join(" ".join(cell.split()) for cell in row) + "\n" for row in rows)
        return table

    @cached_property
    def held_out(self) -> frozenset[str]:
        """One HPO concept in ten, by a hash of its id."""
        with KnowledgeBase(self.hpo) as kb:
            return frozenset(one.concept_id for one in kb.iter_concepts() if part_of(one.concept_id) == "test")

    @cached_property
    def left_out(self) -> frozenset[str]:
        """The concepts held out, and those of whatever source that share a name with one of them."""
        with KnowledgeBase(self.open) as kb:
            names = [(name.concept_id, normalise(name.text)) for name in kb.iter_names()]
        forms = {form for concept, form in names if concept in self.held_out}
        return self.held_out | {concept for concept, form in names if form in forms}


@dataclass(frozen=True, slots=True)
class Retrieval:
    """Queries to be found in a dictionary; ``title`` is for the table."""

    title: str
    dictionary: Dictionary
    queries: tuple[Query, ...]


@dataclass(frozen=True)
class Tasks:
    """All that an encoder is measured on.

    Args:
        retrieval: by the key of their figures.
        rated: rated pairs and the kind of correlation, by the key of their figures.
    """

    retrieval: dict[str, Retrieval]
    rated: dict[str, tuple[list[RatedPair], str]]

    @classmethod
    def of(cls, data: OpenData, sample: int, seed: int) -> Tasks:
        """The tasks of the benchmark.

        Args:
            data: the knowledge bases.
            sample: queries of each task, drawn at random where there are more; dictionaries stay whole.
            seed: of the draw.
        """
        with KnowledgeBase(data.hpo) as kb:
            leaves, names = read_leaves(kb, languages=ENGLISH), list(kb.iter_names())
        with KnowledgeBase(data.snomed) as kb:
            release = read_leaves(kb, languages=ENGLISH)
        unseen = replace(leaves, queries=tuple(one for one in leaves.queries if one.source in data.held_out))
        found = {
            "leaf": Retrieval("HPO, leaf to parent", leaves.dictionary, leaves.queries),
            "unseen leaf": Retrieval("HPO, leaf held out to parent", leaves.dictionary, unseen.queries),
            "release": Retrieval("SNOMED-shaped release, leaf to parent", release.dictionary, release.queries),
            "synonym": _synonyms(names, data.held_out),
        }
        english = Dictionary.from_entries(((name.concept_id,), name.text) for name in names if name.language == "en")
        for tag in FOREIGN:
            drawn = {
                Query((" ".join(name.text.split()),), (name.concept_id,), tag, name.concept_id)
                for name in names
                if name.language == tag and name.concept_id in data.held_out
            }
            ordered = tuple(sorted(drawn, key=lambda query: (query.source, query.parts)))
            found[tag] = Retrieval(f"{tag} names held out to all English names of HPO", english, ordered)
        problems = Problems()
        rated = {
            "ehr-rel": (read_pairs(BENCHMARKS / "ehr_rel/EHR-RelA.tsv", problems), "spearman"),
            "sts": (read_pairs(BENCHMARKS / "stsb/stsb-en-dev.csv", problems), "pearson"),
        }
        sampled = {key: replace(task, queries=draw_sample(task.queries, sample, seed)) for key, task in found.items()}
        return cls(sampled, rated)

    def only(self, keys: Collection[str]) -> Tasks:
        """Those of the tasks that are named; all, if none is."""
        if unknown := set(keys) - self.retrieval.keys() - self.rated.keys():
            raise click.UsageError(f"unknown tasks: {', '.join(sorted(unknown))}")
        return Tasks(
            *(
                {key: task for key, task in part.items() if not keys or key in keys}
                for part in (self.retrieval, self.rated)
            )
        )

    @cached_property
    def texts(self) -> list[str]:
        """Every distinct text, sorted."""
        found = {text for task in self.retrieval.values() for text in task.dictionary.texts}
        found |= {part for task in self.retrieval.values() for query in task.queries for part in query.parts}
        found |= {text for pairs, _ in self.rated.values() for pair in pairs for text in (pair.text_1, pair.text_2)}
        return sorted(found)

    @cached_property
    def digest(self) -> str:
        """Hash of all tasks."""
        digest = hashlib.sha256()
        for key, task in self.retrieval.items():
            digest.update(repr((key, task)).encode())
        for key, (pairs, kind) in self.rated.items():
            digest.update(json.dumps([key, kind, [asdict(pair) for pair in pairs]]).encode())
        return digest.hexdigest()

    def measure(self, encode: Encode) -> dict[str, dict[str, Any]]:
        """Figures of an encoder by task; each distinct text is embedded once."""
        vectors = encode(self.texts)
        row = {text: at for at, text in enumerate(self.texts)}

        def known(texts: Sequence[str]) -> NDArray[np.float32]:
            """Embeddings that were made before."""
            return vectors[[row[text] for text in texts]]

        figures: dict[str, dict[str, Any]] = {}
        for key, task in self.retrieval.items():
            answers = retrieve(known, task.dictionary, task.queries)
            figures[key] = next(iter(measure_answers(answers).values())).to_dict()
        for key, (pairs, kind) in self.rated.items():
            cosines = pair_cosines(known([pair.text_1 for pair in pairs]), known([pair.text_2 for pair in pairs]))
            figures[key] = correlate([pair.rating for pair in pairs], cosines, measure=kind).to_dict()
        return figures

    def cached(self, folder: Path, fingerprint: str, encode: Encode) -> dict[str, dict[str, Any]]:
        """Figures of an encoder, from the file in which a call before left them or made now."""
        path = folder / f"{fingerprint}-{self.digest[:16]}.json"
        if not path.exists():
            folder.mkdir(exist_ok=True)
            with atomic_text_writer(path, "the figures") as file:
                json.dump(self.measure(encode), file, indent=2)
        found: dict[str, dict[str, Any]] = json.loads(path.read_text("utf-8"))
        return found

    def describe(self) -> Iterator[str]:
        """A line for each task: what is asked, and among what."""
        for task in self.retrieval.values():
            names, concepts = len(task.dictionary), len(task.dictionary.concepts)
            yield f"- {task.title}: {len(task.queries):,} queries, {names:,} names of {concepts:,} concepts"


def _synonyms(names: Sequence[Name], held_out: frozenset[str]) -> Retrieval:
    """An English synonym of each concept held out, to be found among all other English names of all concepts.

    The synonym is the first, by a hash, whose exact form no other English name has.
    """
    english = [name for name in names if name.language == "en"]
    forms: dict[str, list[Name]] = defaultdict(list)
    for name in english:
        forms[normalise(name.text)].append(name)
    candidates: dict[str, list[Name]] = defaultdict(list)
    for name, *others in forms.values():
        if not others and not name.preferred and name.concept_id in held_out:
            candidates[name.concept_id].append(name)
    drawn = {
        concept: min(of_concept, key=lambda name: (hashlib.sha256(name.text.encode()).digest(), name.text))
        for concept, of_concept in candidates.items()
    }
    chosen = set(drawn.values())
    queries = [Query((" ".join(name.text.split()),), (concept,), "en", concept) for concept, name in drawn.items()]
    entries = (((name.concept_id,), name.text) for name in english if name not in chosen)
    ordered = tuple(sorted(queries, key=lambda query: query.source))
    return Retrieval("HPO, synonyms held out to all other English names", Dictionary.from_entries(entries), ordered)
