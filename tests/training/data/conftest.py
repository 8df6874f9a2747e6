"""The small terminology of the knowledge base's tests is what training reads here."""

from tests.kb.conftest import house

__all__ = ["house"]
