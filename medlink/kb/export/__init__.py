"""Writers of foreign formats: one file each, from a knowledge base to a file that others read."""
