"""Cross-encoders that order the candidates of a linker anew."""
