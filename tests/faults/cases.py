"""The writers: each command that changes a file or a folder, the folder it starts in, and what it writes."""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from medlink.linking.demo import demo_folder

_STEMS = ("cardio", "nephro", "hepato", "gastro", "neuro", "dermato", "osteo", "pneumo", "haemo", "arthro")
_ENDS = ("pathia", "itis", "osis", "algia", "oma", "ectasia")
MENTIONS = (
    "cardiopathia",
    "chronische Nephroitis",
    "hepatoitis crónica",
    "cardiopathya",
    "gastroalgia gravis",
    "spina ventosa 3",
    "spina ventosa",
    "tussis 2",
    "tussis",
)
"""Names of each table of :func:`write_inputs`, and misspelt ones."""
_HEADER = "concept_id\tname\tlanguage\ttype\tparent\tsemantic_type\n"
_DECISIONS = "id\tname\tlanguage\ttype\tparent\tdecision\n"


@dataclass(frozen=True)
class Case:
    """A writer.

    ``before`` are the commands that make the folder it starts in, ``words`` is its own command, ``again`` that of the
    next run if it differs. Without ``words`` a component without a bundle builds the cached one. ``targets`` are the
    files and folders that it writes, with their kinds (:mod:`tests.faults.states`). A writer that ``reports`` writes
    what the run did: its second run may report that nothing was left.
    """

    name: str
    words: str
    targets: tuple[tuple[str, str], ...]
    before: tuple[str, ...] = ()
    again: str = ""
    reports: bool = False


_KB = "kb build house/kb.sqlite --table"
_BUILD = "index build house --encoder encoder"
_BUNDLE = (f"{_KB} base.tsv", _BUILD)
_HOUSE = (("house", "bundle"), ("house", "kb"))
_CODERPP = (
    "train coderpp kb.sqlite -o model --start encoder --epochs 1 --anchors 64 --positives 2 --neighbours 3 "
    "--checkpoint-steps 2"
)
_BASE, _OTHER = "kb build {} --table base.tsv", "kb build {} --table other.tsv"
_TWO_KBS = (_BASE.format("old.sqlite"), _OTHER.format("kb.sqlite"))
_OUT_HTML = (("out.tsv", "file"), ("out.html", "file"))
_LINK = "link house notes.jsonl -o out.jsonl --language en"
_STATIC = "train static kb.sqlite -o model --epochs 1 --batch-size 16 --rows 256 --dimension 16 --hidden 8"
CASES = (
    Case("kb build, new", _BASE.format("kb.sqlite"), (("kb.sqlite", "kb"),)),
    Case("kb build, replacing", _OTHER.format("kb.sqlite"), (("kb.sqlite", "kb"),), (_BASE.format("kb.sqlite"),)),
    Case("kb build, in a bundle", f"{_KB} other.tsv", _HOUSE, _BUNDLE),
    Case("index build, new", _BUILD, _HOUSE, _BUNDLE[:1]),
    Case("index build, replacing", _BUILD, _HOUSE, (*_BUNDLE, f"{_KB} other.tsv")),
    Case("index build, renewing", _BUILD, _HOUSE, (*_BUNDLE, "index add house --table more.tsv")),
    Case("index build --kb", f"{_BUILD} --kb other.sqlite", _HOUSE, (*_BUNDLE, _OTHER.format("other.sqlite"))),
    Case("kb update", "kb update kb.sqlite other.tsv --allow-loss", (("kb.sqlite", "kb"),),
         (_BASE.format("kb.sqlite"),)),
    Case("kb changes", "kb changes old.sqlite kb.sqlite -o out.tsv", (("out.tsv", "file"),),
         (*_TWO_KBS, "kb changes old.sqlite old.sqlite -o out.tsv")),
    Case("kb export", "kb export kb.sqlite --format fhir -o out.json", (("out.json", "file"),),
         (*_TWO_KBS, "kb export old.sqlite --format fhir -o out.json")),
    Case("kb export, a container", "kb export kb.sqlite --format ftrm -o out.ftrm", (("out.ftrm", "ftrm"),),
         (*_TWO_KBS, "kb export old.sqlite --format ftrm -o out.ftrm")),
    Case("index update", "index update house --table other.tsv -o out.tsv --allow-loss", (*_HOUSE, ("out.tsv", "file")),
         (*_BUNDLE, "kb changes house house -o out.tsv"), reports=True),
    Case("index update, what waits", "index update house --allow-loss", _HOUSE, (*_BUNDLE, f"{_KB} other.tsv")),
    Case("impact", "impact house later linked.jsonl -o out.tsv --report out.html", _OUT_HTML,
         (*_BUNDLE, "link house notes.jsonl -o linked.jsonl --language en", _OTHER.format("later/kb.sqlite"),
          "index build later --encoder encoder", "impact house house linked.jsonl -o out.tsv --report out.html")),
    Case("index add, first", "index add house --table more.tsv", _HOUSE, _BUNDLE),
    Case("index add, again", "index add house --table last.tsv", _HOUSE,
         (*_BUNDLE, "index add house --table more.tsv")),
    Case("cluster", "cluster terms.txt --encoder encoder -o out.tsv --report out.html", _OUT_HTML,
         ("cluster few.txt --encoder encoder -o out.tsv --report out.html",)),
    Case("cluster --add-to", "cluster terms.txt --bundle house --decisions decisions.tsv --add-to house -o out.tsv",
         (*_HOUSE, ("out.tsv", "file")), _BUNDLE, reports=True),
    Case("link", _LINK, (("out.jsonl", "file"),), (*_BUNDLE, "link house few.jsonl -o out.jsonl --language en")),
    Case("link --resume", _LINK, (("out.jsonl", "file"),),
         (*_BUNDLE, "link house few.jsonl -o out.jsonl --language en"), again=f"{_LINK} --resume"),
    Case("map", "map house codes.csv -o out.csv --before before.csv --changes out.tsv",
         (("out.csv", "file"), ("out.tsv", "file")),
         (*_BUNDLE, "map house codes.csv -o before.csv",
          "map house few.csv -o out.csv --before before.csv --changes out.tsv")),
    Case("learn", "learn house links.jsonl -o out.jsonl", (("out.jsonl", "file"),),
         (*_BUNDLE, "learn house links.jsonl -o out.jsonl --least-seen 1")),
    Case("review", "review house codes.jsonl -o decided.tsv --report out.html --pairs out.tsv",
         (("out.html", "file"), ("out.tsv", "file")),
         (*_BUNDLE, "review house codes.jsonl -o earlier.tsv --report out.html --pairs out.tsv")),
    Case("evaluate", "evaluate retrieval base.tsv queries.tsv --encoder encoder -o out.tsv", (("out.tsv", "file"),),
         ("evaluate retrieval base.tsv few.tsv --encoder encoder -o out.tsv",)),
    Case("train static", f"{_STATIC} --seed 2", (("model", "encoder"),), (_BASE.format("kb.sqlite"), _STATIC)),
    Case("train coderpp", _CODERPP, (("model", "encoder"),), (_BASE.format("kb.sqlite"),),
         again=f"{_CODERPP} --resume"),
    Case("demo", "demo -o out", (("out/bundle", "bundle"), ("out/notes.html", "file"))),
    Case("the cached demo bundle", "", (("cache/medlink", "cached"),)),
)  # fmt: skip


def _rows(source: str, number: int) -> str:
    """A table of 180 names in three languages."""
    rows = []
    for i, (stem, end) in enumerate(list(product(_STEMS, _ENDS))[:number]):
        named = {"en": f"{stem}{end}", "de": f"chronische {stem.title()}{end}", "es": f"{stem}{end} crónica"}
        rows += [f"{source}:{i}\t{name}\t{tag}\t\t{source}:0\tDisease\n" for tag, name in named.items()]
    return _HEADER + "".join(rows)


def added(number: int, count: int = 3) -> dict[str, str]:
    """Names of new concepts by id, different for each number."""
    word = "".join(random.Random(number).choices("bdfgklmnprst", k=4))
    return {f"N{number}:{i}": f"morbus {'aeiou'[i % 5].join(word)} {number}" for i in range(count)}


def table(names: dict[str, str]) -> str:
    """A table of concepts with one name each."""
    return _HEADER + "".join(f"{concept}\t{name}\ten\t\t\tDisease\n" for concept, name in names.items())


def write_inputs(folder: Path) -> None:
    """Write the inputs of the commands, and a small encoder."""
    tables = {
        "base.tsv": _rows("X", 60),
        "other.tsv": _rows("Y", 40).replace("osis", "osis nova") + "Y:90\ttussis 2\ten\t\t\tSymptom\n",
        "more.tsv": table({"X:1": "cor bovinum", "M:1": "spina ventosa 3", "M:2": "spina bifida"}),
        "last.tsv": table({"M:1": "spina ventosa", "L:1": "tussis 2", "L:2": "tussis convulsiva"}),
        "terms.txt": "".join(f"{stem}{end}\n" for stem, end in product(_STEMS[:4], _ENDS)) + "spina ventosa 3\n",
        "codes.csv": "code,name\n" + "".join(f"{stem},{stem}itis\n" for stem in _STEMS),
        "few.csv": "code,name\n1,cardiopathia\n",
        "few.txt": "cardiopathia\nnephroitis\n",
        "decisions.tsv": f"{_DECISIONS}NEW:1\tspina ventosa 3\t\tpreferred\tX:0\taccept\n",
        "queries.tsv": "name\tconcept_id\ncardiopathya\tX:0\nnephroitis\tX:7\n",
        "few.tsv": "name\tconcept_id\nnephroitis\tX:7\n",
    }
    notes = [f'{{"id": "{i}", "text": "Known {stem}pathia, no {stem}itis."}}\n' for i, stem in enumerate(_STEMS * 7)]
    links = [
        f'{{"note": "{i}", "text": "{stem}itis", "language": "en", "concept_id": "X:{i}"}}\n'
        for i, stem in enumerate((*_STEMS, *_STEMS[:5]))
    ]
    decided = [f"X:{i}\t{stem}itis\ten\tsynonym\t\taccept\tcode\tC{i}\t\t\t\tX:{i}\n" for i, stem in enumerate(_STEMS)]
    decided.insert(0, f"{_DECISIONS.rstrip()}\tkind\titem\tstart\tend\tsection\tproposed\n")
    codes = [
        f'{{"kind": "code", "id": "C{i}", "text": "{stem}itis", "language": "en", "concept_id": "X:{i}", '
        f'"status": "linked", "candidates": [{{"concept_id": "X:{i}", "preferred_name": "{stem}itis", "score": 1}}]}}\n'
        for i, stem in enumerate(_STEMS)
    ]
    tables |= {"decided.tsv": "".join(decided), "earlier.tsv": "".join(decided[:3]), "codes.jsonl": "".join(codes)}
    tables |= {"notes.jsonl": "".join(notes), "few.jsonl": "".join(notes[:3]), "links.jsonl": "".join(links)}
    for name, text in tables.items():
        (folder / name).write_text(text, encoding="utf-8")
    write_encoder(folder / "encoder")
    # a tenth of the demo terminology, and its notes
    demo = demo_folder()
    shutil.copytree(demo, folder / "demo")
    lines = (demo / "terminology.tsv").read_text("utf-8").splitlines(keepends=True)
    (folder / "demo" / "terminology.tsv").write_text("".join(lines[: len(lines) // 10]), encoding="utf-8")


def write_encoder(folder: Path) -> None:
    """Write a static encoder of random weights."""
    from medlink.models import StaticConfig, StaticEncoder
    from medlink.models.static.encoder import quantise

    rows, width, hidden = 512, 16, 8
    draw = np.random.default_rng(1)
    codes, scale = quantise(draw.normal(size=(rows, width)).astype(np.float32))
    shapes = {
        "norm.weight": (width,), "norm.bias": (width,), "up.weight": (hidden, width), "up.bias": (hidden,),
        "down.weight": (width, hidden), "down.bias": (width,),
    }  # fmt: skip
    weights = {name: draw.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    config = StaticConfig(families=False, rows=rows, dimension=width, hidden=hidden)
    StaticEncoder(config, {"table": codes, "scale": scale, **weights}).save(folder)
