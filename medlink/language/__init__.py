"""Language: the forms under which names and mentions meet, and what each language has of its own, as data."""
