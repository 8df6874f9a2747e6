"""Notes: read, link and write them."""
