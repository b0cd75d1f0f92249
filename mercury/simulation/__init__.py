"""Runs the real engine, state machines, codecs and stores with a virtual clock, a simulated network and crashes.

The protocol itself is not simulated. All random choices come from a seed; the same seed replays the same trace.
"""
