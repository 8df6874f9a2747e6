"""Notes: read, linked, written."""
