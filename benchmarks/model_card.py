"""Write the model card of the built-in encoder from its training tables and recipe.

python benchmarks/model_card.py RECIPE.json medlink/resources/encoder names.tsv made.tsv ... --figures figures.md
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path

import click

from medlink.models import StaticEncoder

_BFARM = (
    "BfArM. Die Erstellung erfolgt unter Verwendung der maschinenlesbaren Fassung des Bundesinstituts für Arzneimittel "
    "und Medizinprodukte (BfArM)"
)
_CARD = """\
# The built-in encoder

A static trilingual encoder for names of clinical concepts: hashed character 3-to-5-grams and words, averaged, and
beside them the word families of the name (`docs/explanation/lexicon.md`), averaged; their sum goes through one residual
feed-forward layer. The numbers, roman numerals and single letters of a name have a share of their own whatever its
length. Unit vectors of {dimension} dimensions. It runs on NumPy alone, and loads into sentence-transformers where
medlink is installed. Fingerprint `{fingerprint}`.

It embeds names, not sentences. Languages: German, English and Spanish; other languages only where they share words.

## Training data

| table | names | concepts | SHA-256 |
|---|---:|---:|---|
{tables}

In all {names:,} names of {concepts:,} concepts ({languages}).

- `names.tsv`: open terminologies, joined by `benchmarks/open_names.py` on preferred labels and exact cross-references;
  broad and narrow synonyms and gene names left out; one German and Spanish label in twenty held out.
- `alpha.tsv`, `oncology.tsv`, `drugs.tsv`: German terms of Alpha-ID by ORPHA code (one code in ten held out), German
  and Spanish names of ICD-O-3, German names of ATC.
- `mentions.tsv`: mentions of the train parts of NCBI-disease and BC5CDR, but those whose text a development part has.
- `siblings.tsv`: coarse names, which share a code and are often no synonyms: terms of the alphabet of ICD-10-GM and of
  ICD-O-3, phrases of the train part of CodiEsp (but documents of DisTEMIST) with the titles of ICD-10-CM.
- `made.tsv`: words and terms of medlink's lexicon, one concept for each meaning; German and Spanish names that were
  made from English ones by it, word by word (`medlink train names`). They teach which words mean the same; many are
  not what a clinician would write.

No development or test mention, no patient data, nothing of UMLS or SNOMED CT.

| source | version | licence and attribution |
|---|---|---|
| Human Phenotype Ontology, with Spanish and German translations | 2024-08-13 | HPO licence, hpo.jax.org/app/license |
| Mondo Disease Ontology, through merged name tables | as merged | CC-BY 4.0, Monarch Initiative |
| Human Disease Ontology, with Spanish translations | 2018-07-05 and merged name tables | CC0 1.0 |
| NCI Thesaurus, diseases | 2018-06-08 | CC-BY 4.0, National Cancer Institute |
| Orphanet Rare Disease Ontology | 2.6 | CC-BY 4.0, Orphanet/INSERM |
| Symptom Ontology, through merged name tables | as merged | CC0 1.0 |
| UBERON and BRENDA tissues, through merged name tables | as merged | CC-BY 3.0 and CC-BY 4.0 |
| Medical Subject Headings | 2020 | courtesy of the U.S. National Library of Medicine |
| Mappings of MeSH names to ChEBI and DOID | Gilda | BSD 2-clause; ChEBI names CC-BY 4.0 |
| Alpha-ID-SE, alphabet of ICD-10-GM and ICD-O-3, German | 2020, 2010, 2019 | {bfarm} |
| ICD-10-CM | 2018 | US public domain |
| CodiEsp, train part | 2020 | CC-BY 4.0 |
| ATC with German names | 2026 | Amtliche Fassung des ATC-Index mit DDD-Angaben, BfArM |
| CANTEMIST, names of ICD-O-3 codes in Spanish | 2020 | CC-BY 4.0 |
| NCBI-disease, train part | 2014 | US public domain |
| BC5CDR, train part | 2015 | public, BioCreative V |
| medlink's lexicon | as in this repository | Apache-2.0 |

The weights hold vectors of hashed n-grams and word families, no names. Beside them lie the forms of the lexicon, and
single words of its training names that the lexicon lacks.

## Recipe

`benchmarks/builtin_encoder.sh` holds the commands. InfoNCE on pairs of names of one concept with in-batch negatives,
names of the same concept, and names spelt alike, masked; a fifth of the batches of coarse names, at a higher
temperature; the last epochs in batches of near neighbours. CPU, two cores. The markers were added to the trained
weights: the vector of a marker is the sum of two rows of the table, as that of an n-gram is, and nothing was trained
for it.

```json
{recipe}
```

The table has 65,536 rows, two for each n-gram, in eight bits with one scale per row.

## Figures

{figures}

## Limits

German and Spanish were learned mostly from words, not from phrases that clinicians wrote: an idiom that the lexicon
lacks is where it fails first. It knows no negation and no context. An embedding of a short abbreviation means little,
but for the safe ones of the lexicon.
"""


@click.command()
@click.argument("recipe", type=click.Path(exists=True, path_type=Path))
@click.argument("encoder", type=click.Path(exists=True, path_type=Path))
@click.argument("tables", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--figures", required=True, type=click.Path(exists=True, path_type=Path))
def main(recipe: Path, encoder: Path, tables: tuple[Path, ...], figures: Path) -> None:
    """Write README.md into the folder of the encoder."""
    rows: set[tuple[str, ...]] = set()
    tables_of = []
    for table in tables:
        raw = table.read_bytes()
        own = {tuple(line.split("\t")[:3]) for line in raw.decode("utf-8").splitlines()[1:]}
        concepts = len({row[0] for row in own})
        tables_of.append(f"| `{table.name}` | {len(own):,} | {concepts:,} | `{hashlib.sha256(raw).hexdigest()}` |")
        rows |= own
    counts = Counter(row[2] for row in rows)
    model = StaticEncoder.load(encoder)
    card = _CARD.format(
        bfarm=_BFARM,
        dimension=model.dimension,
        fingerprint=model.fingerprint,
        names=len(rows),
        concepts=len({row[0] for row in rows}),
        languages=", ".join(f"{language} {count:,}" for language, count in sorted(counts.items())),
        tables="\n".join(tables_of),
        recipe=json.dumps(json.loads(recipe.read_text("utf-8")), indent=2),
        figures=figures.read_text("utf-8").strip(),
    )
    (encoder / "README.md").write_text(card, encoding="utf-8")


if __name__ == "__main__":
    main()
