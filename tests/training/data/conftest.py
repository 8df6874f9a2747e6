"""The small terminology of the knowledge base's tests is what training reads here."""

from tests.kb.conftest import house, house_kb, kb

__all__ = ["house", "house_kb", "kb"]
