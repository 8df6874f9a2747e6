"""Tests of the readers of notes."""
