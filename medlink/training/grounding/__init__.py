"""Conceptual grounding (Fivez et al. 2021): the linear map of names to their concepts, and the network above it."""
