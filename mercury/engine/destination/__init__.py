"""Destination: messages from peers, and the sequences that this side receives (figure 3-14).

`reception.Reception.receive` decodes all waiting arrivals and handles them in one `batch`. `dispatch` passes each
header block and body to the module for it: `messages`, `creation`, `ends`, `inbound_faults`, `ordinary_replies`.
`quota`, `tombstone_quota` and `backlog` limit what peers store here; `ownership` checks which peer may act on a
sequence. `worker.DestinationWorker` posts due acknowledgements, expires sequences, and deletes tombstones.

Called by the committer thread of ``runtime`` (arrivals) and by its worker pool (due work).

Transaction: one for a whole batch, or for the due sequences of one turn. It locks RMD sequences first, then keys of
source sequences, each by name; no claim is needed. If it fails, each arrival is handled again in a separate
transaction.

Invariants: nothing is acknowledged before it is committed: the answers of a batch are made after its commit. A number
is accepted once. Rows are added to the invoker buffer without locking it, so a slow handler does not delay reception.
One peer's messages cannot use up the limits of another.
"""
