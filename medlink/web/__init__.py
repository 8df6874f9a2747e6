"""HTTP servers for private data: what every request must satisfy, and the server that runs an application."""
