"""A virtual clock and a seeded network around the real engine, machines, codecs and store.

Nothing of the protocol is simulated: only time, chance, the wire and the crashes are. The same seed replays the same
trace.
"""
