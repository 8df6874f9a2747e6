"""Readers of notes: one file for each format, whose ``read(file, fields)`` yields a :class:`~.protocol.Note` for each.

``file`` brings the bytes, unpacked; it handles encodings, progress and the refusal of what is no text for every format.
A note that cannot be read is yielded in its place with its problem, and the message holds no word of it.
:mod:`medlink.notes.reading` has them by the endings of their files. ``sql`` reads tables of a database, which have no
file and no ending.
"""
