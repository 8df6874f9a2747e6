"""Notes of a Spark DataFrame."""
