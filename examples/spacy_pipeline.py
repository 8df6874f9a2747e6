"""Link the mentions of notes in a spaCy pipeline, two processes at a time.

python examples/spacy_pipeline.py
"""

import spacy

from medlink.linking.demo import demo_bundle

if __name__ == "__main__":
    nlp = spacy.blank("de")
    nlp.add_pipe("medlink_mentions", config={"bundle": str(demo_bundle())})
    nlp.add_pipe("biolord_linker", config={"bundle": str(demo_bundle()), "k": 3})
    notes = [
        "Z. n. Herzinfarkt 2018, jetzt Belastungsdyspnoe. Kein Fieber.",
        "Mitralklappenstenose (MS) bekannt, MS unverändert.",
    ]
    for doc in nlp.pipe(notes, n_process=2):
        for span in doc.ents:
            print(f"{span.text:24} {span.kb_id_:10} {span._.kb_ents}")
