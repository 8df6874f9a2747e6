"""What the built-in encoder costs: size on disk, time to open, names a second on two cores.

    python benchmarks/encoder.py

The rival in the same run is scikit-learn's character TF-IDF (char_wb 2 to 4), fitted on the same names, which is what
the linkers at hand turn a name into a vector with.
"""

from __future__ import annotations

import time

import click
from open_data import hpo_dictionary


@click.command()
def main() -> None:
    """Print the table."""
    names = [name for _, name, _ in hpo_dictionary()]
    begin = time.perf_counter()
    from medlink.models import load_encoder

    encoder = load_encoder()
    opened = time.perf_counter() - begin
    encoder.encode(names[:100])
    begin = time.perf_counter()
    encoder.encode(names)
    ours = len(names) / (time.perf_counter() - begin)

    from sklearn.feature_extraction.text import TfidfVectorizer

    vectoriser = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True).fit(names)
    begin = time.perf_counter()
    vectoriser.transform(names)
    rival = len(names) / (time.perf_counter() - begin)
    size = sum(p.stat().st_size for p in encoder.folder.iterdir()) / 1e6
    click.echo("| encoder | MB on disk | opens in s (import included) | names/s | ratio to TF-IDF |")
    click.echo("|---|---:|---:|---:|---:|")
    click.echo(
        f"| built-in, {encoder.dimension} dimensions | {size:.1f} | {opened:.2f} | {ours:,.0f} | {ours / rival:.2f} |"
    )


if __name__ == "__main__":
    main()
