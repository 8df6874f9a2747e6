"""Curation: what a reader decided, and the page to decide on."""
