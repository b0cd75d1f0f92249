"""What happens at one node: load, handle, save, apply the effects.

Four rooms, each readable alone; the docstring of each says what it keeps:

- `source`: sequences that this side sends;
- `destination`: what arrives, and sequences that this side receives;
- `delivery`: from the invoker buffer to the application, and its responses back;
- `runtime`: puts the rooms together and runs them: threads, HTTP, group commit, held exchanges.

The files beside the rooms are what rooms share: the context, the values that pass between them, envelopes, dead
letters, claims, status. They import no room. ``destination`` and ``delivery`` import ``source``, because a response is
a message on a source sequence; ``runtime`` imports all three, and none of them imports it: they start no thread and
open no connection. A worker is ``run_once(now)``, and returns what it wants on the wire.
"""
