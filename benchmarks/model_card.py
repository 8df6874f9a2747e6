"""Write the model card of the built-in encoder from its training table and recipe.

python benchmarks/model_card.py names.tsv RECIPE.json medlink/resources/encoder --figures figures.md
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path

import click

from medlink.models import StaticEncoder

_CARD = """\
# The built-in encoder

A static trilingual encoder for names of clinical concepts: hashed character 3-to-5-grams and words, averaged, then one
residual feed-forward layer; beside it the numbers, roman numerals and single letters of a name, with a share of their
own whatever the length of the name. Unit vectors of {dimension} dimensions. It runs on NumPy alone, and
loads into sentence-transformers where medlink is installed. Fingerprint `{fingerprint}`.

It embeds names, not sentences. Languages: German, English and Spanish; other languages only where they share words.

## Training data

{names:,} names of {concepts:,} concepts
({languages}),
joined by `benchmarks/open_names.py` on preferred labels and exact cross-references; broad and narrow synonyms and gene
names left out; one German and Spanish label in twenty held out.
SHA-256 of the table: `{digest}`.
No mention of any benchmark, no patient data, nothing of UMLS or SNOMED CT.

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

The weights hold vectors of hashed n-grams, no names.

## Recipe

`benchmarks/builtin_encoder.sh` holds the commands. InfoNCE on pairs of names of one concept with in-batch negatives,
names of the same concept masked; the last epochs in batches of near neighbours. CPU, two cores. The markers were added
to the trained weights: the vector of a marker is the sum of two rows of the table, as that of an n-gram is, and nothing
was trained for it.

```json
{recipe}
```

The table has 65,536 rows, two for each n-gram, in eight bits with one scale per row.

## Figures

{figures}

## Limits

German was learned from 4,000 names and from words that it shares with the other languages; a compound whose parts are
native words is where it fails first. It knows no negation and no context. An embedding of a short abbreviation means
little.
"""


@click.command()
@click.argument("names", type=click.Path(exists=True, path_type=Path))
@click.argument("recipe", type=click.Path(exists=True, path_type=Path))
@click.argument("encoder", type=click.Path(exists=True, path_type=Path))
@click.option("--figures", required=True, type=click.Path(exists=True, path_type=Path))
def main(names: Path, recipe: Path, encoder: Path, figures: Path) -> None:
    """Write README.md into the folder of the encoder."""
    raw = names.read_bytes()
    rows = [line.split("\t") for line in raw.decode("utf-8").splitlines()[1:]]
    counts = Counter(row[2] for row in rows)
    model = StaticEncoder.load(encoder)
    card = _CARD.format(
        dimension=model.dimension,
        fingerprint=model.fingerprint,
        names=len(rows),
        concepts=len({row[0] for row in rows}),
        languages=", ".join(f"{language} {count:,}" for language, count in sorted(counts.items())),
        digest=hashlib.sha256(raw).hexdigest(),
        recipe=json.dumps(json.loads(recipe.read_text("utf-8")), indent=2),
        figures=figures.read_text("utf-8").strip(),
    )
    (encoder / "README.md").write_text(card, encoding="utf-8")


if __name__ == "__main__":
    main()
