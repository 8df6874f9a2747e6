"""A made-up UMLS release in Rich Release Format, which nobody owns: lengths and shares are set here, not measured.

    python benchmarks/made_release.py FOLDER --concepts 200000

A concept has five names on average (MRCONSO), in ten languages, a quarter of them suppressed; five relations, each
written from both sides (MRREL); a semantic type or two (MRSTY); and one in seven has a definition (MRDEF). The same
seed makes the same files, which are sorted by concept as those of a release are.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path

import click

COLUMNS = {
    "MRCONSO": "CUI,LAT,TS,LUI,STT,SUI,ISPREF,AUI,SAUI,SCUI,SDUI,SAB,TTY,CODE,STR,SRL,SUPPRESS,CVF",
    "MRDEF": "CUI,AUI,ATUI,SATUI,SAB,DEF,SUPPRESS,CVF",
    "MRREL": "CUI1,AUI1,STYPE1,REL,CUI2,AUI2,STYPE2,RELA,RUI,SRUI,SAB,SL,RG,DIR,SUPPRESS,CVF",
    "MRSTY": "CUI,TUI,STN,STY,ATUI,CVF",
    "MRRANK": "RANK,SAB,TTY,SUPPRESS",
    "MRSAB": (
        "VCUI,RCUI,VSAB,RSAB,SON,SF,SVER,VSTART,VEND,IMETA,RMETA,SLC,SCC,SRL,TFR,CFR,CXTY,TTYL,ATNL,LAT,CENC,CURVER,"
        "SABIN,SSN,SCIT"
    ),
}
# language, share of the names in percent, and its syllables
_LANGUAGES: dict[str, tuple[int, str]] = {
    "ENG": (
        70,
        "car di o ne phr itis ose al ic pul mon ar y hep at ren sis tic the ra pi con ges tive fail ure dis",
    ),
    "SPA": (
        10,
        "car dí a ne fro itis osa ción pul mo nar en fer me dad del ri ñón hí ga do cró ni ca agu do tra ta mien to",
    ),
    "FRE": (4, "car di a que né phro ite ma la die du foie chro ni que ai guë pul mo naire in suf fi sance é tat"),
    "POR": (4, "do en ça car dí a ca rim fí ga do crô ni co pul mão in fec ção a gu da le são ner vo"),
    "GER": (
        3,
        "herz nie ren ent zün dung krank heit der lun ge chro nisch a kut leber ver schluß stö rung ge fäß mus kel",
    ),
    "RUS": (3, "сер деч ная не до ста точ ность бо лезнь по чек хро ни чес кий ост рый лёг ких пе че ни"),
    "JPN": (2, "心 不 全 腎 炎 肝 臓 肺 疾 患 慢 性 急 症 候 群 病 障 害"),
    "ITA": (2, "ma lat ti a car di a ca re na le cro ni co fe ga to pol mo ne in suf fi cien za à"),
    "DUT": (1, "hart zie kte nier ont ste king chro nisch le ver long aan doe ning ge ne ra li seerd ë"),
    "CZE": (1, "srd ce sel há ní led vin zá nět chro nic ký ja ter plic ne moc po ru cha ž"),
}
_SOURCES = ("SNOMEDCT_US", "MSH", "MDR", "NCI", "ICD10CM", "LNC", "RXNORM", "OMIM", "MTH", "CHV")
_TERM_TYPES = ("PT", "SY", "FN", "LLT", "ET", "PM", "IS", "AB")
_TYPES = [(f"T{number:03}", f"B2.{number}", f"Made Type {number}") for number in range(1, 128)]
_KINDS = ("has_finding_site", "associated_with", "part_of", "may_treat", "")
_VOCABULARY = 30_000  # words of a language; few of them are frequent, as in any language
_SUPPRESSED = "NNNNNNNNNNNNNNNOOOYE"


class _Maker:
    """Rows of a release with so many concepts."""

    def __init__(self, concepts: int, seed: int) -> None:
        self.rng = random.Random(seed)
        self.concepts = concepts
        self.words: dict[str, tuple[list[str], list[float]]] = {}
        for language, (_, syllables) in _LANGUAGES.items():
            parts, length = syllables.split(), (1, 3) if language == "JPN" else (2, 5)
            words = ["".join(self.rng.choices(parts, k=self.rng.randint(*length))) for _ in range(_VOCABULARY)]
            self.words[language] = words, list(accumulate(1 / (place + 10) for place in range(_VOCABULARY)))

    def text(self, language: str, words: int) -> str:
        known, weights = self.words[language]
        text = " ".join(self.rng.choices(known, cum_weights=weights, k=words))
        shape = self.rng.random()
        if shape < 0.6:
            return text.capitalize()
        if shape < 0.7:
            return f"{text}, type {self.rng.randint(1, 12)}"
        if shape < 0.75:
            return f"{text} (disorder)"
        if shape < 0.8:
            return f"{text.title()}'s {self.rng.randint(1, 40)}.{self.rng.randint(0, 9)} mg-{text[:3]}"
        return text

    def names(self) -> Iterator[str]:
        languages, shares = list(_LANGUAGES), [share for share, _ in _LANGUAGES.values()]
        pick, choose, number = self.rng.random, self.rng.choices, 0
        for cui in range(1, self.concepts + 1):
            text = ""
            for _ in range(1 + min(40, int(self.rng.expovariate(1 / 4.5)))):
                number += 1
                language = choose(languages, shares)[0]
                # one name in four is that of another source
                if not text or language != "ENG" or pick() > 0.25:
                    text = self.text(language, 1 + int(self.rng.expovariate(1 / 2.5)))
                sab = self.rng.choice(_SOURCES)
                sab = sab if language == "ENG" else sab[:3] + language
                ts, stt, preferred = choose(("P", "S"))[0], choose(("PF", "VO", "VC"))[0], choose("YN")[0]
                tty, code, state = self.rng.choice(_TERM_TYPES), self.rng.randint(1, 10**7), choose(_SUPPRESSED)[0]
                yield (
                    f"C{cui:07}|{language}|{ts}|L{number:08}|{stt}|S{number:08}|{preferred}|A{number:08}|{code}01|"
                    f"{code}||{sab}|{tty}|{code}|{text}|{self.rng.choice('0349')}|{state}|256|"
                )

    def definitions(self) -> Iterator[str]:
        for cui in range(1, self.concepts + 1, 7):
            text = self.text("ENG", self.rng.randint(8, 60))
            yield f"C{cui:07}|A{cui:08}|AT{cui:08}||{self.rng.choice(_SOURCES)}|{text}.|N||"

    def types(self) -> Iterator[str]:
        for cui in range(1, self.concepts + 1):
            for tui, tree, label in sorted(set(self.rng.choices(_TYPES, k=1 + (self.rng.random() < 0.1)))):
                yield f"C{cui:07}|{tui}|{tree}|{label}|AT{cui:08}|256|"

    def relations(self) -> Iterator[str]:
        number = 0
        for cui in range(1, self.concepts + 1):
            for turn in range(5):
                # parents stand before their children, so that there are no circles
                other = self.rng.randint(1, cui) if turn < 2 else self.rng.randint(1, self.concepts)
                sab, state = self.rng.choice(_SOURCES), "NNNNNNNNNO"[self.rng.randrange(10)]
                here, there = ("PAR", "inverse_isa"), ("CHD", "isa")
                if turn >= 2:
                    kind = self.rng.choice(_KINDS)
                    here, there = ("RO", kind), ("RO", kind and f"inverse_{kind}")
                for one, two, (rel, rela) in ((cui, other, here), (other, cui, there)):
                    number += 1
                    yield (
                        f"C{one:07}|A{one:08}|AUI|{rel}|C{two:07}|A{two:08}|AUI|{rela}|R{number:09}||{sab}|{sab}|||"
                        f"{state}|4352|"
                    )

    def ranks(self) -> Iterator[str]:
        pairs = [(sab, tty) for sab in _SOURCES for tty in _TERM_TYPES]
        yield from (f"{900 - place:04}|{sab}|{tty}|N|" for place, (sab, tty) in enumerate(pairs))

    def sources(self) -> Iterator[str]:
        for sab in _SOURCES:
            cells = dict.fromkeys(COLUMNS["MRSAB"].split(","), "")
            cells |= {"RSAB": sab, "VSAB": f"{sab}2026", "SON": f"Made source {sab}", "SVER": "2026"}
            cells |= {"IMETA": "2026AA", "SRL": "0", "CENC": "UTF-8", "CURVER": "Y", "SABIN": "Y"}
            yield "|".join(cells.values()) + "|"


def make_release(folder: Path, concepts: int, seed: int = 1) -> None:
    """Write a release of so many concepts, the same one every time."""
    folder.mkdir(parents=True, exist_ok=True)
    maker = _Maker(concepts, seed)
    files: dict[str, Callable[[], Iterator[str]]] = {
        "MRCONSO": maker.names,
        "MRDEF": maker.definitions,
        "MRREL": maker.relations,
        "MRSTY": maker.types,
        "MRRANK": maker.ranks,
        "MRSAB": maker.sources,
    }
    listed, described = [], []
    for name, rows in files.items():
        count = 0
        with open(folder / f"{name}.RRF", "w", encoding="utf-8", newline="") as file:
            for row in rows():
                file.write(row + "\n")
                count += 1
        columns, size = COLUMNS[name].split(","), (folder / f"{name}.RRF").stat().st_size
        listed.append(f"{name}.RRF|made|{COLUMNS[name]}|{len(columns)}|{count}|{size}|")
        described += [f"{column}|made||0|0|0|{name}.RRF|varchar||" for column in columns]
    for name, lines in (("MRFILES", listed), ("MRCOLS", described)):
        (folder / f"{name}.RRF").write_text("".join(line + "\n" for line in lines), encoding="utf-8")


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--concepts", default=200_000, show_default=True, type=click.IntRange(1))
@click.option("--seed", default=1, show_default=True, type=int)
def main(folder: Path, concepts: int, seed: int) -> None:
    """Write the release into FOLDER."""
    make_release(folder, concepts, seed)


if __name__ == "__main__":
    main()
