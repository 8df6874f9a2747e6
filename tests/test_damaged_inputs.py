"""Every reader of foreign files, on damaged ones.

A reader gives records or a ``MedlinkError``, in bounded time and memory. No row is lost silently: the rows that were
read, bad or left out add up to the number that independent code counts in the file.
"""

from __future__ import annotations

import gzip
import json
import re
import tracemalloc
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medlink.clustering.terms import read_terms
from medlink.curation.decisions import read_decisions
from medlink.errors import MedlinkError
from medlink.evaluation.names import read_clusters, read_dictionary
from medlink.evaluation.notes import read_texts
from medlink.evaluation.retrieval import read_queries
from medlink.files.problems import Problems
from medlink.files.tables import open_table
from medlink.kb import Input, build_kb
from medlink.kb.decision_table import COLUMNS
from medlink.kb.readers.claml import read_claml
from medlink.kb.readers.delimited import read_table
from medlink.kb.readers.obo import read_obo
from medlink.kb.readers.obograph import read_obograph
from medlink.kb.readers.omop import read_omop
from medlink.kb.readers.rf2 import read_rf2
from medlink.kb.readers.rrf import read_rrf
from medlink.kb.readers.scispacy import read_scispacy
from medlink.language.text import exact_words
from medlink.notes.gold import read_gold
from medlink.notes.learned import read_learned
from medlink.notes.reading import read_notes
from medlink.reading.learned import Forms, decided
from medlink.records import Concept, Definition, Name, Record, Relation, Retired, SemanticType
from medlink.training.biolord.multilingual import read_alignments
from medlink.training.data.rated_pairs import has_triplets, read_pairs, read_triplets
from medlink.training.data.selection import read_definitions
from tests.damage import damaged, in_time, lines_of, text_of, tried, with_text, wrong_json
from tests.kb import writers
from tests.kb.writers import Term, conso, read_alphaid, read_atc, read_babelon, row

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:Generating overly large repr")]
TERMS = [
    Term("X:1", [("en", "fever, high", True), ("en", "pyrexia", False), ("de", "Fieber", True)], [("en", "Hot.")]),
    Term("X:2", [("en", "disease", True), ("es", "ñandú", True)], [], ["X:1"], ["Finding"]),
    *(Term(f"X:{number}", [("en", f"name {number}", True)], [], ["X:2"]) for number in range(3, 9)),
]
SHARES = st.sampled_from([0.01, 0.5, 0.999, 1.0])
EXAMPLES = 10
"""Damaged files for each reader."""


def written(name: str, write: Callable[[Path], object]) -> bytes:
    """The bytes of a file that a writer of the tests writes."""
    with in_time() as folder:
        write(folder / name)
        return (folder / name).read_bytes()


def read(records: Iterable[Record]) -> list[Record] | None:
    """The records of a reader, which all can be encoded; ``None`` where the file is refused."""
    try:
        found = list(records)
    except MedlinkError:
        return None
    for record in found:
        "".join(str(part) for part in astuple(record)).encode("utf-8")
    return found


def read_damaged(
    reader: Callable[..., Iterable[Record]], name: str, data: bytes, share: float
) -> tuple[list[Record] | None, Problems]:
    """Read a file of these bytes; the records are ``None`` where it is refused."""
    problems = Problems(share)
    with in_time() as folder:
        (folder / name).write_bytes(data)
        return read(reader(folder / name, problems=problems)), problems


def count(records: Iterable[Record], *kinds: type) -> int:
    return sum(isinstance(record, kinds) for record in records)


def unread(problems: Problems) -> int:
    """Rows that are bad or left out."""
    return problems.bad.total() + problems.skipped.total()


def json_lines(rows: Iterable[Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def damaged_json(rows: list[Any]) -> st.SearchStrategy[bytes]:
    """JSON lines with damaged bytes, or with values of another type."""
    return st.one_of(
        damaged(json_lines(rows)),
        wrong_json(rows).map(lambda wrong: json_lines(wrong if isinstance(wrong, list) else [wrong])),
    )


TABLE = written("x.tsv", lambda path: writers.write_table(path, TERMS))
CSV = written("x.csv", lambda path: writers.write_table(path, TERMS))
OBO = written("x.obo", lambda path: writers.write_obo(path, TERMS))
OBOGRAPH = written("x.json", lambda path: writers.write_obograph(path, TERMS))
BABELON = written("x.tsv", lambda path: writers.write_babelon(path, TERMS))
SCISPACY = [
    {"concept_id": f"X:{n}", "canonical_name": f"ä {n}", "aliases": ["b"], "types": ["T1"], "definition": "d"}
    for n in range(9)
]
NOTES = [{"id": n, "text": f"ä {n}", "language": "de"} for n in range(9)]
MRCONSO = "".join(conso(f"C{n // 2}", f"ä {n}", CODE=str(n)) + "\n" for n in range(12)).encode()
RF2_CONCEPT = "sct2_Concept_Snapshot_INT_20260901.txt"
RF2_DESCRIPTION = "sct2_Description_Snapshot-en_INT_20260901.txt"
RF2_ASSOCIATION = "der2_cRefset_AssociationSnapshot_INT_20260901.txt"


@tried(EXAMPLES)
@given(damaged(TABLE), SHARES)
def test_tables(data: bytes, share: float) -> None:
    found, problems = read_damaged(read_table, "x.tsv", data, share)
    # without tabs in the header the file is read as CSV, see below
    if found is not None and b"\t" in lines_of(data)[0]:
        assert count(found, Name) + unread(problems) == problems.rows == with_text(data) - 1


@tried(2 * EXAMPLES)
@given(damaged(CSV), SHARES)
def test_quoted_tables(data: bytes, share: float) -> None:
    problems = Problems(share)
    with in_time() as folder:
        (folder / "x.csv").write_bytes(data)
        read(read_table(folder / "x.csv"))
        try:
            table = open_table(folder / "x.csv", problems)
            rows = list(table.rows)
        except MedlinkError:
            return
    if b"\t" not in lines_of(data)[0]:
        assert len(rows) + unread(problems) == problems.rows
        # the further lines of a row are in its cells
        further = sum(cell.count("\n") for cells in (table.first, *(cells for _, cells in rows)) for cell in cells)
        assert problems.rows + 1 + further <= len(lines_of(data))
        assert with_text(data) <= problems.rows + 1 + further


@tried(EXAMPLES)
@given(damaged(BABELON), SHARES)
def test_babelon(data: bytes, share: float) -> None:
    found, problems = read_damaged(read_babelon, "x.tsv", data, share)
    if found is not None:
        assert count(found, Name, Definition) + unread(problems) == problems.rows == with_text(data) - 1


@tried(EXAMPLES)
@given(damaged(OBO), SHARES)
def test_obo(data: bytes, share: float) -> None:
    found, problems = read_damaged(read_obo, "x.obo", data, share)
    if found is not None:
        lines = [text_of(line, first=not at) for at, line in enumerate(lines_of(data))]
        assert problems.rows == len(lines)
        terms = sum(line is not None and line.strip() == "[Term]" for line in lines)
        left = ("obsolete term", "term of another ontology", "culture condition")
        left_out = sum(problems.skipped[reason] for reason in left) + problems.bad["term without id or name"]
        assert terms == count(found, Concept) + left_out


@tried(4 * EXAMPLES)
@given(
    st.one_of(damaged(OBOGRAPH), wrong_json(json.loads(OBOGRAPH)).map(lambda wrong: json.dumps(wrong).encode())), SHARES
)
def test_obograph(data: bytes, share: float) -> None:
    found, problems = read_damaged(read_obograph, "x.json", data, share)
    if found is not None:
        graph = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data.removeprefix(b"\xef\xbb\xbf"))
        nodes, edges = graph["graphs"][0]["nodes"], graph["graphs"][0].get("edges") or []
        skipped = {reason: number for reason, number in problems.skipped.items() if "synonym" not in reason}
        at_edges = skipped.pop("edge to or from a left-out node", 0)
        skipped.pop("cross-reference without a system", None)
        assert len(nodes) == problems.rows
        assert len(nodes) == count(found, Concept) + sum(skipped.values()) + problems.bad["malformed node"]
        assert len(edges) == count(found, Relation) + at_edges + problems.bad["malformed edge"]


@tried(2 * EXAMPLES)
@given(damaged_json(SCISPACY), SHARES)
def test_scispacy(data: bytes, share: float) -> None:
    found, problems = read_damaged(read_scispacy, "x.jsonl", data, share)
    if found is not None:
        assert count(found, Concept) + unread(problems) == problems.rows
        texts = [text_of(line, first=not at) for at, line in enumerate(lines_of(data))]
        assert problems.rows == sum(text is None or text.strip() != "" for text in texts)


@tried(EXAMPLES)
@given(damaged(MRCONSO), SHARES, st.booleans())
def test_rrf(data: bytes, share: float, other: bool) -> None:
    problems = Problems(share)
    types = b"".join(b"C%d|T1|A1|Finding|AT1||\n" % number for number in range(6))
    with in_time() as folder:
        (folder / "MRCONSO.RRF").write_bytes(MRCONSO if other else data)
        (folder / "MRSTY.RRF").write_bytes(data if other else types)
        found = read(read_rrf(folder, problems=problems))
    if found is not None:
        assert problems.rows == with_text(data) + (len(MRCONSO.splitlines()) if other else 6)
        assert count(found, Name, SemanticType) + unread(problems) == problems.rows


@tried(EXAMPLES)
@given(damaged(b"".join(b"%s.RRF|x|A|18|%d|1|\n" % (name, 12) for name in (b"MRCONSO", b"MRSTY"))), SHARES)
def test_mrfiles(data: bytes, share: float) -> None:
    with in_time() as folder:
        (folder / "MRCONSO.RRF").write_bytes(MRCONSO)
        (folder / "MRFILES.RRF").write_bytes(data)
        read(read_rrf(folder, problems=Problems(share)))


@tried(EXAMPLES)
@given(
    damaged(b"".join(b"C9%d|2020AA|%s|||C%d|Y|\n" % (n, (b"SY", b"RO", b"SUBX")[n % 3], n) for n in range(6))), SHARES
)
def test_mrcui(data: bytes, share: float) -> None:
    problems = Problems(share)
    with in_time() as folder:
        (folder / "MRCONSO.RRF").write_bytes(MRCONSO)
        (folder / "MRCUI.RRF").write_bytes(data)
        found = read(read_rrf(folder, problems=problems))
    if found is not None:
        assert problems.rows == with_text(data) + len(MRCONSO.splitlines())
        assert count(found, Name, Retired) + unread(problems) == problems.rows


def concepts() -> bytes:
    with in_time() as folder:
        rows = [row(number, "0", active=str(int(number != 3))) for number in range(1, 9)]
        return writers.rf2(folder, RF2_CONCEPT, "definitionStatusId", rows).read_bytes()


def descriptions(folder: Path) -> bytes:
    rows = [row(10 + n, str(n), "en", writers.SYNONYM, f"ä {n}", "0") for n in range(1, 9)]
    return writers.rf2(folder, RF2_DESCRIPTION, writers.DESCRIPTION, rows).read_bytes()


@tried(2 * EXAMPLES)
@given(
    st.one_of(damaged(concepts()), damaged(written(RF2_DESCRIPTION, lambda path: descriptions(path.parent)))), SHARES
)
def test_rf2(data: bytes, share: float) -> None:
    problems = Problems(share)
    with in_time() as folder:
        (folder / RF2_CONCEPT).write_bytes(concepts())
        descriptions(folder)
        (folder / (RF2_DESCRIPTION if b"concept" in data else RF2_CONCEPT)).write_bytes(data)
        found = read(read_rf2(folder, problems=problems))
    if found is not None:
        assert problems.rows == with_text(data) - 1 + 8
        assert count(found, Concept, Name) + unread(problems) == problems.rows


def associations(folder: Path) -> bytes:
    rows = [row(f"a{n}", "900000000000527005", str(2 + n % 3), str(n), active=str(int(n != 4))) for n in range(1, 9)]
    columns = "refsetId referencedComponentId targetComponentId"
    return writers.rf2(folder, RF2_ASSOCIATION, columns, rows).read_bytes()


@tried(EXAMPLES)
@given(damaged(written(RF2_ASSOCIATION, lambda path: associations(path.parent))), SHARES)
def test_associations(data: bytes, share: float) -> None:
    problems = Problems(share)
    with in_time() as folder:
        (folder / RF2_CONCEPT).write_bytes(concepts())
        descriptions(folder)
        (folder / RF2_ASSOCIATION).write_bytes(data)
        found = read(read_rf2(folder, problems=problems))
    if found is not None:
        assert problems.rows == with_text(data) - 1 + 16
        stated = [one for one in found if not (isinstance(one, Retired) and one.type == "deleted")]
        assert count(stated, Concept, Name, Retired) + unread(problems) == problems.rows


@tried(EXAMPLES)
@given(wrong_json({"effectiveTime": "20260901", "languageRefsets": [{"id": "1"}]}), damaged(b'{"languageRefsets": []}'))
def test_package_information(data: Any, text: bytes) -> None:
    with in_time() as folder:
        (folder / RF2_CONCEPT).write_bytes(concepts())
        descriptions(folder)
        for content in (json.dumps(data).encode(), text):
            (folder / "release_package_information.json").write_bytes(content)
            assert read(read_rf2(folder)) is not None


@tried(EXAMPLES)
@given(damaged(b"term\nfever\nFieber\n\xc3\x96deme\nfever, high\n" * 3), st.sampled_from(["t.txt", "t.tsv", "t.csv"]))
def test_term_lists(data: bytes, name: str) -> None:
    with in_time() as folder:
        (folder / name).write_bytes(data)
        try:
            terms = read_terms(folder / name)
        except MedlinkError:
            return
    left = sum(int(found[1]) for note in terms.notes if (found := re.search(r"left out: (\d+)", note)))
    if name == "t.txt":
        assert int(terms.frequency.sum()) + left == len(lines_of(data, universal=True))
    elif name == "t.tsv" and b"," not in lines_of(data)[0] and b";" not in lines_of(data)[0]:
        # a table of one column may have empty rows
        rows = with_text(data) if b"\t" in lines_of(data)[0] else len(lines_of(data))
        assert int(terms.frequency.sum()) + left == rows - 1


@tried(2 * EXAMPLES)
@given(damaged_json(NOTES))
def test_notes(data: bytes) -> None:
    with in_time() as folder:
        (folder / "n.jsonl").write_bytes(data)
        notes = list(read_notes([str(folder / "n.jsonl")]))
        refused = any(note.note_id.endswith("n.jsonl") for note in notes)
    for note in notes:
        f"{note.note_id}{note.text}{note.language}{note.problem}".encode()
    if not refused:
        texts = [text_of(line, first=not at) for at, line in enumerate(lines_of(data))]
        assert len(notes) == sum(text is None or text.strip() != "" for text in texts)


def check_gold(name: str, data: bytes, share: float, is_other: re.Pattern[str]) -> None:
    """Every line is an annotation, bad, or of a kind that has no mention."""
    problems = Problems(share)
    with in_time() as folder:
        (folder / name).write_bytes(data)
        (folder / "n.txt").write_bytes("Fieber, Öl".encode())
        try:
            notes = list(read_gold(folder / name, problems))
        except MedlinkError:
            return
    texts = [text_of(line, first=not at) for at, line in enumerate(lines_of(data))]
    others = sum(text is not None and (not text.strip() or is_other.match(text) is not None) for text in texts)
    assert sum(len(note.annotations) for note in notes) + problems.bad.total() == len(texts) - others


BRAT = "T1\tX 0 6\tFieber\nN1\tReference T1 X:1\tf\nT2\tX 8 10\tÖl\n#1\tAnnotatorNotes T2\tX:2\nA1\tN T1\n".encode()
PUBTATOR = "1|t|Fieber, Öl\n1|a|\n1\t0\t6\tFieber\tD\tX:1\n1\t8\t10\tÖl\tD\tX:2|X:3\n1\tCID\tX:1\tX:2\n\n".encode() * 2
LINKS = [{"note": str(n), "text": f"a {n}", "language": "de", "concept_id": "X:1", "section": None} for n in range(9)]
LEARNED = [
    {"medlink": "learned mentions", "version": 1, "kb": "k", "sources": {"X": ""}, "notes": 3, "least_seen": 2}
    | {"least_share": 0.5},
    *({"mention": f"a {n}", "language": "de", "notes": 2, "seen": {"": {"X:1": n}}} for n in range(1, 9)),
]


@tried(EXAMPLES)
@given(damaged(BRAT), SHARES)
def test_brat(data: bytes, share: float) -> None:
    check_gold("n.ann", data, share, re.compile(r"[AMRE*#]|N\S*\t\S+ (\S+) (\S+)(\t.*)?$"))


@tried(EXAMPLES)
@given(damaged(PUBTATOR), SHARES)
def test_pubtator(data: bytes, share: float) -> None:
    check_gold("n.pubtator", data, share, re.compile(r"[^|\t]+\|[ta]\||[^\t]*(\t[^\t]*){3}$"))


@tried(2 * EXAMPLES)
@given(damaged_json(LINKS), SHARES)
def test_links(data: bytes, share: float) -> None:
    check_gold("n.jsonl", data, share, re.compile("(?!)"))


FINDINGS = [
    {"id": n, "text": f"Fieber, Öl {n}", "findings": [{"pieces": [[0, 6], [8, 10]], "concepts": ["X:1"]}]}
    for n in range(9)
]


@tried(2 * EXAMPLES)
@given(damaged_json(FINDINGS))
def test_findings(data: bytes) -> None:
    problems = Problems(0.999)
    with in_time() as folder:
        (folder / "g.jsonl").write_bytes(data)
        try:
            texts = read_texts([folder / "g.jsonl"], problems)
        except MedlinkError:
            return
    lines = [text_of(line, first=not at) for at, line in enumerate(lines_of(data))]
    assert len(texts) + problems.bad.total() == sum(line is None or line.strip() != "" for line in lines)
    assert all(text.text[start:end] for text in texts for one in text.findings for start, end in one.pieces)


@tried(2 * EXAMPLES)
@given(damaged_json(LEARNED))
def test_learned_mentions(data: bytes) -> None:
    with in_time() as folder:
        (folder / "h.jsonl").write_bytes(data)
        try:
            _, entries = read_learned(folder / "h.jsonl")
        except MedlinkError:
            return
    assert len(entries) + 1 == sum((text_of(line) or "").strip() != "" for line in lines_of(data))
    for entry in entries.values():
        decided(entry.everywhere, 0.5)
    list(Forms({mention for mention, _ in entries}).places("a 1", exact_words("a 1", "de")))


@tried(EXAMPLES // 5)
@given(st.data())
def test_a_knowledge_base_of_damaged_files(data: st.DataObject) -> None:
    """Records of damaged files can be stored."""
    files = {"table": CSV, "obo": OBO, "babelon": BABELON, "scispacy": json_lines(SCISPACY)}
    with in_time() as folder:
        inputs = [Input("table", folder / "whole")]
        (folder / "whole").write_bytes(TABLE)
        for kind, content in files.items():
            (folder / kind).write_bytes(data.draw(damaged(content)))
            inputs.append(Input(kind, folder / kind))
        (folder / "obograph").write_text(json.dumps(data.draw(wrong_json(json.loads(OBOGRAPH)))))
        inputs.append(Input("obograph", folder / "obograph"))
        for given_input in inputs:
            with suppress(MedlinkError):
                build_kb(folder / "kb", [inputs[0], given_input], max_bad_share=1)


@pytest.mark.parametrize(
    ("read_one", "name", "begin"),
    [
        (read_table, "x.tsv", b""),
        (read_obo, "x.obo", b""),
        (read_scispacy, "x.jsonl", b""),
        (read_claml, "x.xml", b"<ClaML><Class>"),
        (read_alphaid, "x.txt", b""),
        (read_atc, "x.csv", b""),
        (lambda path: read_rrf(path.parent), "MRCONSO.RRF", b""),
        (lambda path: read_omop(path.parent), "CONCEPT.csv", b""),
        (lambda path: read_terms(path).texts, "t.txt", b""),
    ],
)
def test_a_small_file_that_unpacks_to_a_large_one(
    read_one: Callable[[Path], Iterable[object]], name: str, begin: bytes, tmp_path: Path
) -> None:
    """64 MB without a line end, in 64 kB: memory does not grow with a line or with what a block unpacks to."""
    path = tmp_path / name
    path.write_bytes(gzip.compress(begin + b"x" * (64 << 20)))
    tracemalloc.start()
    try:
        with pytest.raises(MedlinkError):
            list(read_one(path))
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def triplets(path: Path) -> object:
    return read_triplets(path, Problems(0.5)) if has_triplets(path) else None


_NLI = b'{"sentence1": "a", "sentence2": "b", "gold_label": "%s"}\n'
OTHERS: dict[str, tuple[Callable[[Path], object], bytes]] = {
    "pairs": (lambda path: read_pairs(path, Problems(0.5)), b"text_1,text_2,score\na,b,1\nc,d,2.5\ne,f,0\n"),
    "pairs without a header": (lambda path: read_pairs(path, Problems(0.5)), b"a\tb\t1\nc\td\t2.5\ne\tf\t0\n"),
    "triplets": (triplets, b"premise,entailed,contradicted\na,b,c\nd,e,f\n"),
    "labelled pairs": (triplets, _NLI % b"entailment" + _NLI % b"contradiction"),
    "definitions": (lambda path: list(read_definitions(path)), b"id,definition,language\nX:1,Hot.,en\nX:2,Cold.,en\n"),
    "queries": (lambda path: read_queries([path], Problems(0.5)), b"concept_id,mention\nX:1,hot\nX:2,cold\n"),
    "queries of BioSyn": (lambda path: read_queries([path], Problems(0.5)), b"1||0|3||Disease||hot||X:1|X:2\n" * 3),
    "dictionary": (lambda path: read_dictionary(path, Problems(0.5)), b"X:1||hot\nX:2|X:3||cold\n"),
    "clusters": (read_clusters, b"term\tcluster\tlanguage\nhot\t1\ten\ncold\t2\ten\n"),
    "alignments": (lambda path: list(read_alignments(path, ["de"])), b"source\ttarget\tlanguage\nhot\tHitze\tde\n"),
    "decisions": (
        read_decisions,
        "\t".join(COLUMNS).encode() + b"\nNEW:1\thot\ten\tpreferred\t\taccept\n\tn/a\t\t\t\treject\n",
    ),
}


@pytest.mark.parametrize("kind", OTHERS)
@tried(EXAMPLES // 2)
@given(st.data())
def test_other_readers(kind: str, data: st.DataObject) -> None:
    read_one, content = OTHERS[kind]
    with in_time() as folder, suppress(MedlinkError):
        (folder / "x").write_bytes(data.draw(damaged(content)))
        read_one(folder / "x")


@pytest.mark.parametrize("kind", OTHERS)
def test_other_readers_read_whole_files(kind: str, tmp_path: Path) -> None:
    read_one, content = OTHERS[kind]
    (tmp_path / "x").write_bytes(content)
    assert read_one(tmp_path / "x")
