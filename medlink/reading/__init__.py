"""What a note says: mentions, whether each is so, values, attributes. No file is opened here."""
