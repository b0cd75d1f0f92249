"""The engine of one node: load the state, handle an event, save the state, apply the effects.

Four packages; the docstring of each states its invariants:

- `source`: sequences that this side sends;
- `destination`: what arrives, and sequences that this side receives;
- `delivery`: from the invoker buffer to the application, and its responses back;
- `runtime`: assembles the other packages and runs them: threads, HTTP, group commit, held exchanges.

The modules beside them are shared: the context, the values that pass between the packages, envelopes, dead letters,
claims, status. They import none of the four packages. ``destination`` and ``delivery`` import ``source``, because a
response is a message on a source sequence; ``runtime`` imports all three, and none of them imports it: they start no
thread and open no connection. A worker has ``run_once(now)``, which returns the messages to post.
"""
