"""What stands for a name that was taken out is no mention, and the words beside it are."""

from __future__ import annotations

import pytest

from medlink import Note, NotePipeline
from medlink.index import Bundle
from medlink.reading.persons import in_placeholder


@pytest.mark.parametrize("text", ["[**Marfan 12**]", "[**Name\n(ID)**]", "<NAME>", "<DATE 2>", "XXX", "xxxx", "___"])
def test_a_placeholder(text: str) -> None:
    inside = in_placeholder(f"a {text} b {text}")
    end = 2 + len(text)
    assert inside(2, end)
    assert inside(end - 1, end + 2)
    assert not inside(0, 1)
    assert not inside(end + 1, end + 2)


@pytest.mark.parametrize("text", ["47,XXX", "<b>", "[COPD]", "XXXL", "p < 0.05 und > 3", "XX", "[** open"])
def test_what_is_no_placeholder(text: str) -> None:
    inside = in_placeholder(text)
    assert not any(inside(at, at + 1) for at in range(len(text)))


def test_no_mention_is_in_a_placeholder(demo: Bundle) -> None:
    text = "[**Asthma**] <COUGH> fever [**Fever Clinic**] cough <b>gout</b>"
    for verbatim in (False, True):
        (note,) = NotePipeline(demo, verbatim=verbatim).link([Note("n", text, "en")])
        assert [(one.link.mention, one.start) for one in note.mentions] == [("fever", 21), ("cough", 46), ("gout", 55)]
