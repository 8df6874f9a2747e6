"""One self-contained HTML page with linked notes: displaCy spans and a card for each concept."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from pathlib import Path

from spacy import displacy

from medlink.files.whole import whole_text
from medlink.kb import KnowledgeBase
from medlink.notes.pipeline import LinkedNote
from medlink.records import Candidate

_COLOURS = {"Disease": "#f4c7c3", "Symptom": "#fde2b5", "Finding": "#fff3b0", "Procedure": "#cfe8cf"}
_COLOURS |= {"Drug": "#cfdff5", "Anatomy": "#e3d4f0", "Laboratory test": "#cdeceb", "NIL": "#e4e4e4"}
_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}
section{margin-bottom:3rem}.entities{white-space:pre-wrap;line-height:2.2!important}
mark.entity{line-height:1.2!important}.entity a{color:inherit;text-decoration:none}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(17rem,1fr));gap:.8rem}
.card{border:1px solid #ccc;border-radius:.4rem;padding:.7rem;font-size:.9rem}
.card:target{outline:3px solid #36c}.card h3{margin:0 0 .3rem;font-size:1rem}
.card dl{margin:0;display:grid;grid-template-columns:auto 1fr;gap:0 .5rem}.card dt{color:#666}.card dd{margin:0}
"""
_TITLES = {"de": "Deutsch", "en": "English", "es": "Español"}


def _note(note: LinkedNote) -> str:
    entities = []
    for mention in note.mentions:
        entity = {"start": mention.start, "end": mention.end, "label": "NIL", "kb_id": "", "kb_url": "#"}
        if not mention.link.nil:
            best = mention.link.candidates[0]
            # displaCy puts kb_id into a link; it escapes nothing itself
            kb_id, label = escape(best.concept_id), escape((best.semantic_types or ("concept",))[0])
            entity |= {"label": label, "kb_id": kb_id, "kb_url": f"#{escape(note.language)}-{kb_id}"}
        entities.append(entity)
    data = {"text": note.note.text, "ents": entities, "title": None}
    return displacy.render(data, style="ent", manual=True, page=False, jupyter=False, options={"colors": _COLOURS})


def _card(kb: KnowledgeBase, best: Candidate, language: str) -> str:
    concept_id = best.concept_id
    concept = kb.get(concept_id)
    if concept is None:
        return ""
    parents = kb.preferred_names(kb.parents(concept_id), language)
    tags = sorted({name.language for name in concept.names})
    rows = [
        ("id", concept_id),
        ("type", ", ".join(sorted({t.semantic_type for t in concept.semantic_types}))),
        ("is a", ", ".join(parents.values())),
        *((tag, "; ".join(name.text for name in concept.names if name.language == tag)) for tag in tags),
        *(("definition", definition.text) for definition in concept.definitions),
        ("matched", f"{best.name} ({best.score:.2f})"),
    ]
    title = kb.preferred_name(concept_id, language) or concept_id
    body = "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in rows if value)
    anchor = f"{escape(language)}-{escape(concept_id)}"
    return f'<article class="card" id="{anchor}"><h3>{escape(title)}</h3><dl>{body}</dl></article>'


def write_page(path: Path, notes: Iterable[LinkedNote], kb: KnowledgeBase) -> Path:
    """Write the page: each note with its mentions marked, and a card for each linked concept.

    Raises:
        ConfigError: the file cannot be written.
    """
    parts = []
    for note in notes:
        linked: dict[str, Candidate] = {}
        for mention in note.mentions:
            if not mention.link.nil:
                linked.setdefault(mention.link.candidates[0].concept_id, mention.link.candidates[0])
        cards = "".join(_card(kb, best, note.language) for best in linked.values())
        parts.append(
            f'<section lang="{escape(note.language)}"><h2>{escape(_TITLES.get(note.language, note.language))}</h2>'
            f"{_note(note)}<h3>{len(linked)} concepts</h3>"
            f'<div class="cards">{cards}</div></section>'
        )
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>medlink: linked notes</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>'
        f"<body><h1>Linked notes</h1>{''.join(parts)}</body></html>\n"
    )
    with whole_text(path, "the page") as file:
        file.write(page)
    return path
