"""Cues of status and headings of sections: tables of a language, and how their phrases are found in a text."""
