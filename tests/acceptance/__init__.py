"""Mercury as its users run it: real processes, real sockets, real signals."""
