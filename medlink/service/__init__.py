"""The HTTP service: link notes, link mentions, search and show concepts."""
