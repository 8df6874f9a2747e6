"""The static encoder: hashed n-grams on NumPy alone."""

from medlink.models.static.encoder import StaticConfig, StaticEncoder

__all__ = ["StaticConfig", "StaticEncoder"]
