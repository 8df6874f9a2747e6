"""CODER++ (Zeng et al. 2022)."""
