"""Delivery: from the invoker buffer to the application, and its responses back (figure 3-15).

`invocation.InvocationWorker.run_once` takes the buffers that have something to release, one at a time under a claim.
A `run.DeliveryRun` is one transaction's part of a buffer; `calls` calls the application for its messages, each by a
`handler_call.HandlerCall`, or several at once; `responses` numbers and stores the responses of a run; `repair` counts
the bytes of lost rows. Messages that are never delivered become dead letters, with the reason.

Called by the worker pool of ``runtime``, by several threads in parallel, each for another buffer.

Transaction: under ExactlyOnce there is one for the handler's work, the delivery and the responses, conditional on the
epoch of the claim; a handler that fails is rolled back to the savepoint of its message or messages. Under AtLeastOnce
the delivery is committed after the handler's work, under AtMostOnce before it.

Invariants: a message is delivered at most once under ExactlyOnce and AtMostOnce, and in order where the policy says so.
A response is stored with the delivery of its request, or not at all. A message that fails too often, or cannot be read,
does not block the others forever: it is retried after a pause, skipped by the policy, or parked.
"""
