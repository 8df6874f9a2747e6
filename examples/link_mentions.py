"""Link bare mentions in three languages with the demo bundle.

python examples/link_mentions.py
"""

from medlink import Mention, load
from medlink.linking.demo import demo_bundle

linker = load(demo_bundle())
mentions = [
    Mention("heart attack", "en"),
    Mention("Zuckerkrankheit Typ II", "de"),
    Mention("dolor de cabeza", "es"),
    Mention("pnuemonia", "en"),
    Mention("MS", "en"),
    Mention("MS", "en", expanded="multiple sclerosis"),
    Mention("garden furniture", "en"),
]
for link in linker.link(mentions, k=3):
    best = link.candidates[0]
    answer = link.status if link.nil else f"{best.concept_id} {best.preferred_name}"
    print(f"{link.mention:24} {answer:40} {best.score:.2f}  {best.route}: {best.name}")
