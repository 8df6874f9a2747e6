"""Re-rankers of the first concepts of a mention, by their names and definitions."""
