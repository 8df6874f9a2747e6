"""HTTP servers for private data: the checks of every request, and the server that runs an application."""
