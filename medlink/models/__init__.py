"""Encoders: names to embeddings. What is imported here needs neither torch nor sentence-transformers."""

from medlink.models.encoders import Encoder, load_encoder
from medlink.models.static import StaticConfig, StaticEncoder

__all__ = ["Encoder", "StaticConfig", "StaticEncoder", "load_encoder"]
