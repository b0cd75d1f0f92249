"""The command line. Each command is a thin layer over functions of the other packages."""
