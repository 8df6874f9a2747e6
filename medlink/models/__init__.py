"""Encoders: names to embeddings. These imports need neither torch nor sentence-transformers."""

from medlink.models.encoders import Encoder, load_encoder
from medlink.models.static import StaticConfig, StaticEncoder
from medlink.models.translated import MarianTranslator, TranslatedEncoder

__all__ = ["Encoder", "MarianTranslator", "StaticConfig", "StaticEncoder", "TranslatedEncoder", "load_encoder"]
