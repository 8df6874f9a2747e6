"""Language: normalised and inflected forms, the lexicon, and the data of each language."""
