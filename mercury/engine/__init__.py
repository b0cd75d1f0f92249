"""What happens: load, handle, save, and carry out the effects.

Nothing here starts a thread but `runtime`, and nothing opens a connection but `transport`: the workers are
``run_once(now)``, and what they want on the wire they return.
"""
