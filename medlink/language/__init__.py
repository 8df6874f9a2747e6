"""Exact and inflected forms of words, the lexicon, and the data of each language."""
