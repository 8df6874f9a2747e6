"""Linking the notes of a Spark DataFrame."""
