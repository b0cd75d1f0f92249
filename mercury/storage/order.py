"""The order in which rows are locked: by kind, and within a kind by name."""

from __future__ import annotations

RMD, INVOKER, RMS = range(3)
#: Names of the kinds in error messages.
NAMES = ("RMD", "InvokerBuffer", "RMS")
