"""Re-rankers: they look at the first concepts of a mention once more, by their names and definitions."""
