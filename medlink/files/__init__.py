"""Files: whole files and folders, locks, streams and tables: all that medlink writes and reads goes through here."""
