"""Map a list of local codes with the demo bundle, and keep what a person approved when the list comes again.

python examples/map_codes.py
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from medlink.linking.demo import demo_bundle
from medlink.mapping import Mapper, SourceCode, map_codes

codes = [SourceCode("K1", "Z.n. Herzinfarkt", 120), SourceCode("K2", "Hb g/dl", 3000), SourceCode("K3", "MS", 4)]
for found in Mapper(demo_bundle(), language="de").propose(codes):
    target = found.target
    answer = found.link if target is None else f"{target.concept_id} {target.name}"
    print(f"{found.source.code}  {found.source.name:18} {answer:32} {found.score:.2f}  {found.evidence}")

with TemporaryDirectory() as folder:
    local, reviewed, again = (Path(folder) / name for name in ("codes.csv", "reviewed.csv", "again.csv"))
    local.write_text("code,name,frequency\nK1,Z.n. Herzinfarkt,120\nK2,Hb g/dl,3000\n", encoding="utf-8")
    map_codes(demo_bundle(), local, out=reviewed, language="de")
    reviewed.write_text(reviewed.read_text("utf-8").replace("UNCHECKED", "APPROVED"), encoding="utf-8")
    print(*map_codes(demo_bundle(), local, out=again, before=reviewed, language="de").lines(), sep="\n")
