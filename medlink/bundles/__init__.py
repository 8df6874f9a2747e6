"""The bundle folder: content-named parts, the manifest that lists them, and checks of their paths."""
