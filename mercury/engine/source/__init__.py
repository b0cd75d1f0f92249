"""Source: sequences that this side sends (the RMSSequenceWorker of figure 3-14).

`worker.SourceWorker.run_once` takes the keys that have work, one at a time under a claim, and runs `transmission`
for each: expiry, numbering of new rows (`numbering`), what is due to be sent or sent again, CreateSequence,
CloseSequence, TerminateSequence. `apply_effects` applies the effects of an RMSSequence; `back_channel` makes the
responses that leave on the connection of their request.

Called by the worker pool of ``runtime``, and by ``destination`` and ``delivery``, which raise events on source
sequences (acknowledgements, faults, new responses) through `apply_effects.handle_rms`.

Transaction: one for each key, conditional on the epoch of its claim; events that arrive are handled in the transaction
of their batch instead, under the lock of the key. Locks: offered RMD sequences first, then the key.

Invariants: a number is assigned once, in the transaction that makes it durable. A message leaves only after the commit
that counts its transmission. A row is deleted when it is acknowledged; the row of a request also waits until its
response is consumed. A message that will not be delivered becomes a dead letter in the transaction that removes its
row.
"""
