"""A peer of ``suite.py``: exact TF-IDF over characters, two to four in a row (scikit-learn).

    python rank_tfidf.py DICTIONARY QUERIES

Letters count in lower case, within words. The cosines of a mention with all names are computed; a concept has that of
its best name.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

_BATCH = 256
_NAMES = 200  # nearest names whose concepts are printed


def read(path: str) -> list[dict[str, str]]:
    """The rows of a table."""
    with Path(path).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def ranked(dictionary: list[dict[str, str]], mentions: list[str]) -> Iterator[list[str]]:
    """The ids of concepts for each mention, best first; names without a letter of it have none."""
    vectoriser = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True, dtype=np.float32)
    names = vectoriser.fit_transform([row["name"] for row in dictionary]).T.tocsr()
    ids = [row["concept_id"] for row in dictionary]
    vectors = vectoriser.transform(mentions)
    for start in range(0, len(mentions), _BATCH):
        for cosines in (vectors[start : start + _BATCH] @ names).toarray():
            near = np.argsort(-cosines, kind="stable")[:_NAMES]
            yield list(dict.fromkeys(ids[at] for at in near.tolist() if cosines[at] > 0))


if __name__ == "__main__":
    queries = read(sys.argv[2])
    for query, found in zip(queries, ranked(read(sys.argv[1]), [row["mention"] for row in queries]), strict=True):
        print("\t".join([query["query"], *found]))
