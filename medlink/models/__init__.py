"""Encoders: names to embeddings. These imports need neither torch nor sentence-transformers."""

from medlink.models.encoders import Encoder, MarianTranslator, TranslatedEncoder, load_encoder
from medlink.models.static.encoder import StaticConfig, StaticEncoder

__all__ = ["Encoder", "MarianTranslator", "StaticConfig", "StaticEncoder", "TranslatedEncoder", "load_encoder"]
