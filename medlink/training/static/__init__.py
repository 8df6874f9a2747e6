"""Trainers of the static encoder: from names, and from a teacher."""
