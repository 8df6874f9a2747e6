"""Read a note: mentions, their qualifiers, attributes and measured values. No file is opened here."""
