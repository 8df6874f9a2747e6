"""Reader of OBO-graphs JSON, the JSON form of OBO and OWL ontologies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from os import PathLike
from typing import Any

from medlink.errors import InputError
from medlink.files.json import read_json_input
from medlink.files.problems import Problems
from medlink.files.streams import LineFile
from medlink.kb.readers.common import Format, Ontology, compact, is_deprecated, most_frequent_prefix, numeric_parts
from medlink.records import Definition, Record, Relation, Retired, SemanticType, Source

_NAMESPACES = frozenset({"http://www.geneontology.org/formats/oboInOwl#hasOBONamespace", "oboInOwl:hasOBONamespace"})
_VERSION_INFO = frozenset({"http://www.w3.org/2002/07/owl#versionInfo", "owl:versionInfo"})
_LISTS, _TEXTS = ("synonyms", "xrefs", "basicPropertyValues"), ("pred", "val", "synonymType")
_TITLE = frozenset({"http://purl.org/dc/elements/1.1/title", "http://purl.org/dc/terms/title"})
_REPLACED_BY = frozenset({"http://purl.obolibrary.org/obo/IAO_0100001", "IAO:0100001"})
_CONSIDER = frozenset({"http://www.geneontology.org/formats/oboInOwl#consider", "oboInOwl:consider"})
_EXACT_MATCH = frozenset({"http://www.w3.org/2004/02/skos/core#exactMatch", "skos:exactMatch"})
# of EFO and ORDO
_ALTERNATIVE_TERM = frozenset({"http://www.ebi.ac.uk/efo/alternative_term"})
_DEFINITION = frozenset({"http://www.ebi.ac.uk/efo/definition"})
_ALTERNATIVE = frozenset({"http://www.geneontology.org/formats/oboInOwl#hasAlternativeId", "oboInOwl:hasAlternativeId"})


def read_obograph(
    path: str | PathLike[str],
    *,
    source: str | None = None,
    version: str | None = None,
    language: str = "en",
    problems: Problems | None = None,
) -> Iterator[Record]:
    """Read the first graph of an OBO-graphs file, with the conversion of :func:`medlink.kb.readers.obo.read_obo`.

    Semantic types are the OBO namespaces, or without any the labels of the top ancestors (the children of a single
    root). Edges are named by the label of their property.

    The whole file is held in memory (about ten times its decompressed size). ``source`` defaults to the prefix, such as
    ``HP``, and ``version`` defaults to that of the file.
    """
    problems = problems or Problems()
    lines = LineFile(path, problems)
    graph, file = _load(lines), lines.path
    nodes = _valid_nodes(graph["nodes"], problems, file)
    active = [node for node in nodes if node.get("type") == "CLASS" and not _meta(node).get("deprecated")]
    prefix = most_frequent_prefix(Counter(compact(node["id"]).partition(":")[0] for node in active))
    own: dict[str, dict[str, Any]] = {}
    for node in nodes:
        if node.get("type") != "CLASS":
            problems.skipped["node that is not a class"] += 1
        elif _meta(node).get("deprecated"):
            problems.skipped["deprecated class"] += 1
        elif compact(node["id"]).partition(":")[0] != prefix:
            problems.skipped["class of another ontology"] += 1
        elif not (node.get("lbl") or "").strip():
            problems.skipped["class without a label"] += 1
        elif not is_deprecated(node["lbl"], problems.skipped, "class"):
            if node["id"] in own:
                problems.skipped["class repeated, kept once"] += 1
            own[node["id"]] = node
    if not own:
        message = f"looked for classes with a label; found {len(nodes)} nodes and none of them"
        raise InputError(message, path=file, remedy="give the OBO-graphs JSON of an ontology")
    name = source or prefix
    if version is None:
        # or else the date or number in the version URL
        parts = numeric_parts(str(_meta(graph).get("version") or ""))
        version = _value(graph, _VERSION_INFO) or next(reversed(parts), "")
    yield Source(name, version, _value(graph, _TITLE) or name)
    ontology = Ontology(name, language, problems.skipped)
    for url, node in own.items():
        yield from _concept(ontology, compact(url), node)
    yield from _retirements(ontology, nodes, own, prefix)
    labels = {node["id"]: node["lbl"] for node in nodes if node.get("lbl") and node.get("type") != "CLASS"}
    parents: dict[str, list[str]] = {}
    edges = graph.get("edges") or []
    for edge in edges:
        match edge:
            case {"sub": str(head), "pred": str(predicate), "obj": str(tail)} if head in own and tail in own:
                if predicate == "is_a":
                    parents.setdefault(head, []).append(tail)
                kind = "isa" if predicate == "is_a" else labels.get(predicate, compact(predicate))
                yield Relation(compact(head), kind, compact(tail), name)
            case {"sub": str(), "pred": str(), "obj": str()}:
                problems.skipped["edge to or from a left-out node"] += 1
            case _:
                problems.bad_row("malformed edge", file, 0)
    problems.check_bad_share(file, len(graph["nodes"]) + len(edges))
    yield from _semantic_types(own, parents, name)


def _load(lines: LineFile) -> dict[str, Any]:
    data, path, message = read_json_input(lines), lines.path, ""
    graph: dict[str, Any] = {}
    match data:
        case {"graphs": [{"nodes": list()} as first, *others]}:
            graph = first
            if others:
                lines.problems.notes.append(f"{path}: only the first of {len(others) + 1} graphs is read")
            if not _is_meta(graph.get("meta")) or not isinstance(graph.get("edges") or [], list):
                message = "graphs[0].meta or graphs[0].edges is malformed"
        case _:
            actual = ", ".join(sorted(data)[:10]) if isinstance(data, dict) else type(data).__name__
            message = f"looked for graphs[0].nodes; found {actual or 'nothing'}"
    if message:
        raise InputError(message, path=path, remedy="give OBO-graphs JSON")
    return graph


def _valid_nodes(nodes: list[Any], problems: Problems, path: Any) -> list[dict[str, Any]]:
    problems.rows += len(nodes)
    valid = []
    for node in nodes:
        match node:
            case {"id": str()} if _is_text(node.get("lbl")) and _is_meta(node.get("meta")):
                valid.append(node)
            case _:
                problems.bad_row("malformed node", path, 0)
    problems.check_bad_share(path, len(nodes))
    return valid


def _is_meta(meta: Any) -> bool:
    if meta is None:
        return True
    if not isinstance(meta, dict):
        return False
    listed = [[meta.get("definition") or {}], *(meta.get(key) or [] for key in _LISTS)]
    return all(
        isinstance(part, list)
        and all(isinstance(entry, dict) and all(_is_text(entry.get(key)) for key in _TEXTS) for entry in part)
        for part in listed
    )


def _is_text(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _meta(node: dict[str, Any]) -> dict[str, Any]:
    meta: dict[str, Any] = node.get("meta") or {}
    return meta


def _values(node: dict[str, Any], predicates: frozenset[str]) -> list[str]:
    properties = _meta(node).get("basicPropertyValues") or []
    return [entry.get("val") or "" for entry in properties if entry.get("pred") in predicates]


def _value(node: dict[str, Any], predicates: frozenset[str]) -> str:
    return next(iter(_values(node, predicates)), "")


def _concept(ontology: Ontology, concept_id: str, node: dict[str, Any]) -> Iterator[Record]:
    meta = _meta(node)
    yield from ontology.term(concept_id, node["lbl"].strip())
    for synonym in meta.get("synonyms") or []:
        text = (synonym.get("val") or "").strip()
        scope = (synonym.get("pred") or "").removeprefix("has").removesuffix("Synonym") or "synonym"
        if text:
            yield from ontology.synonym(concept_id, text, scope, synonym.get("synonymType") or "")
        else:
            ontology.skipped["empty synonym"] += 1
    for text in filter(None, map(str.strip, _values(node, _ALTERNATIVE_TERM))):
        yield from ontology.synonym(concept_id, text, "exact", "")
    definition = ((meta.get("definition") or {}).get("val") or _value(node, _DEFINITION)).strip()
    if definition:
        yield Definition(concept_id, definition, ontology.language, ontology.source)
    references = (xref.get("val") or "" for xref in meta.get("xrefs") or [])
    yield from ontology.mappings(concept_id, references, _values(node, _EXACT_MATCH))


def _retirements(
    ontology: Ontology, nodes: list[dict[str, Any]], own: dict[str, dict[str, Any]], prefix: str
) -> Iterator[Record]:
    listed = ((url, old_id) for url, node in own.items() for old_id in _values(node, _ALTERNATIVE) if old_id)
    merged = {(compact(old_id), compact(url)) for url, old_id in listed}
    yield from (Retired(old_id, "same_as", concept_id, ontology.source) for old_id, concept_id in sorted(merged))
    alternative = {old_id for old_id, _ in merged}
    for node in nodes:
        concept_id = compact(node["id"])
        is_own = node.get("type") == "CLASS" and concept_id.partition(":")[0] == prefix
        is_gone = _meta(node).get("deprecated") or is_deprecated(node.get("lbl") or "", Counter())
        # a merged class is also deprecated
        if is_own and is_gone and concept_id not in alternative:
            others = (map(compact, _values(node, kind)) for kind in (_REPLACED_BY, _CONSIDER))
            yield from ontology.retired(concept_id, *others)


def _semantic_types(
    own: dict[str, dict[str, Any]], parents: dict[str, list[str]], source: str
) -> Iterator[SemanticType]:
    namespaces = {url: dict.fromkeys(_values(node, _NAMESPACES)) for url, node in own.items()}
    yield from (SemanticType(compact(url), name, "", source) for url, names in namespaces.items() for name in names)
    if any(namespaces.values()):
        return
    roots = set(chain.from_iterable(parents.values())).intersection(own).difference(parents)
    tops = roots if len(roots) != 1 else {url for url, listed in parents.items() if roots.issubset(listed)}
    for url in own:
        ancestors, stack = {url}, [url]
        while stack:
            new = set(parents.get(stack.pop(), ())) - ancestors
            ancestors |= new
            stack += new
        for top in sorted(ancestors & tops):
            yield SemanticType(compact(url), own[top]["lbl"].strip(), "", source)


FORMAT = Format("obograph", read_obograph, "--obograph", "Ontology as an OBO-graphs JSON file.", 40)
