"""Export of a knowledge base to other formats, one module each."""
