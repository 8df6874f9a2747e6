"""Training of cross-encoders that re-rank the candidates of a linker."""
