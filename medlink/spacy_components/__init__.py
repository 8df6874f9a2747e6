"""spaCy components: ``medlink_mentions`` finds mentions, ``biolord_linker`` links them."""
