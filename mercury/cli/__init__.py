"""The command line: thin, every command a few calls of what the other packages offer."""
