"""Readers: one file for each foreign format, release files in, records out."""
