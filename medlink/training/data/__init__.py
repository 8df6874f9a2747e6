"""Training data from a knowledge base or tables: pairs, texts with target vectors, and rated sentences."""
