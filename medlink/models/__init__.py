"""Encoders: names to embeddings. What is imported here needs neither torch nor sentence-transformers."""

from medlink.models.biolord import BioLordTrainer
from medlink.models.coderpp import CoderPlusPlusTrainer
from medlink.models.encoders import Encoder, load_encoder
from medlink.models.static import StaticConfig, StaticEncoder

__all__ = ["BioLordTrainer", "CoderPlusPlusTrainer", "Encoder", "StaticConfig", "StaticEncoder", "load_encoder"]
