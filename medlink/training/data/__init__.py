"""What is trained on: pairs, texts with targets and rated sentences, from a knowledge base or tables."""
