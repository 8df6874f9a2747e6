"""MLTE (Feng 2023): how alike two texts are, from the states of every block of a transformer.

What is imported here needs neither torch nor sentence-transformers; training imports both.
"""
