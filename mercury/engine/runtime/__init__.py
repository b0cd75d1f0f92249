"""Runtime: assembles the packages source, destination and delivery to an engine, and runs it with threads.

`core.Engine` makes the workers of ``source``, ``destination`` and ``delivery`` over one store; it has no thread, and
the simulation runs it as it is. `threads.Runtime` runs it in a process: one committer thread takes arrivals
(`group_commit`), a `worker_pool` for each worker, and a `sender_pool` that posts through `transport`
(`resolver`, `http_reply`, `peers`). `held_exchanges` are HTTP exchanges that stay open for a response; `clock` notices
that the clock was set back; `retention` removes rows whose retention time has passed.

Called by the facade (start, stop), by the endpoint of ``mercury.service`` (arrivals), and by the store (commits, which
wake the pools).

Transaction: none of its own. A worker's ``run_once`` has committed when it returns, and only then its posts are handed
to the senders: the network is not used in a transaction.

Invariants: no wait is unbounded: a pool polls when no wake-up comes, and a stop has a deadline. A slow server does not
use up the threads for other servers. Unfinished work of a stop or a crash is in the store, and is due again.
"""
