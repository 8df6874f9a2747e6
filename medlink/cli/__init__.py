"""The command line: one module for each command or group, imported on first use."""
