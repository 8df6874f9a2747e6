"""The static encoder: hashed n-grams on NumPy alone."""
