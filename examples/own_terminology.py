"""From a table of your own to linked mentions: knowledge base, bundle, linker.

python examples/own_terminology.py
"""

import tempfile
from pathlib import Path

from medlink import Input, build_bundle, build_kb, load

OWN_TABLE = """\
concept_id\tname\tlanguage\ttype\tparent\tsemantic_type
H:1\tKopfschmerz\tde\tpreferred\t\tSymptom
H:1\tCephalgie\tde\tsynonym\t\t
H:1\theadache\ten\tpreferred\t\t
H:2\tMigräne\tde\tpreferred\tH:1\tDisease
H:2\tmigraña\tes\tpreferred\t\t
"""

with tempfile.TemporaryDirectory() as folder:
    table = Path(folder, "own.tsv")
    table.write_text(OWN_TABLE, encoding="utf-8")
    report = build_kb(Path(folder, "kb.sqlite"), [Input("table", table)])
    print({source.source.name: source.names for source in report.sources})
    bundle = build_bundle(Path(folder, "bundle"), kb=Path(folder, "kb.sqlite"))
    linker = load(bundle.folder, language="de")
    for link in linker.link(["Kopfschmerzen", "cefalea", "Migraene"]):
        best = link.candidates[0]
        print(f"{link.mention:16} {link.concept_id or 'NIL':5} {best.preferred_name:14} {best.score:.2f} {best.route}")
    print([linker.kb.preferred_name(parent, "de") for parent in linker.kb.parents("H:2")])
