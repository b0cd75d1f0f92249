"""Tests that run Mercury as its users do: with real processes, real sockets and real signals."""
