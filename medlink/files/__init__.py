"""File access: atomic writes, locks, text streams, tables, JSON and XML. All of medlink reads and writes through it."""
