"""Writers: what becomes of the links of notes. A new output format is one file in this folder."""

from medlink.notes.writers.jsonl import JsonLinesWriter
from medlink.notes.writers.protocol import Job, LinkedMention, Writer
from medlink.notes.writers.text import TextWriter

__all__ = ["Job", "JsonLinesWriter", "LinkedMention", "TextWriter", "Writer"]
