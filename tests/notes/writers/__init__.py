"""Tests of the writers of links."""
