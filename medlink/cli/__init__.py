"""The command line: one file per command group, loaded only when its command is called."""
