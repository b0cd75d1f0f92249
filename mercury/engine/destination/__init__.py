"""Destination: what arrives from peers, and the sequences that this side receives (figure 3-14).

`reception.Reception.receive` decodes all arrivals that wait, and handles them in one `batch`: `dispatch` gives each
header block and body to the file that knows it: `messages`, `creation`, `ends`, `inbound_faults`, `ordinary_replies`.
`quota`, `tombstone_quota` and `backlog` bound what peers may keep here; `ownership` says who may speak for a sequence.
`worker.DestinationWorker` posts acknowledgements that are due to an address, expires sequences, and forgets tombstones.

Called by the committer thread of ``runtime`` (arrivals) and by its worker pool (what is due).

Transaction: one for a whole batch, or for the due sequences of one turn. It locks RMD sequences first, then keys of
source sequences, each by name; no claim is needed. When it fails, each arrival is handled again in one of its own.

Invariants: nothing is acknowledged before it is committed: the answers of a batch exist only after its commit. A number
is accepted once. The invoker buffer gets rows and is not locked, so a slow handler does not slow reception down. What
one peer sends cannot take the room of another.
"""
