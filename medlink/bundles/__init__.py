"""The folder of a bundle: its parts, the manifest that names them, and what may be found in their place."""
