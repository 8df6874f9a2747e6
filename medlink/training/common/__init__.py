"""The common run: loop, checkpoints, recipe, record and card of every trainer."""
