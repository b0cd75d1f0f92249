"""From a stage to the store: acknowledged messages are moved in batches ([decision 77]).

`mover.StageMover.run_once` takes the place of the worker that calls the application: it reads what waits in the stage,
writes it to the store in one transaction, and then removes it from the stage in another. `moving` has these three
steps, and `damage` finds the messages and the ends whose rows have lost their place.

Called by one thread of ``runtime``, of the engine whose store is the stage.

Invariants: nothing is removed from the stage before the store has committed it. The store records the numbers that it
has of each sequence, in the transaction that stores their messages or their dead letters, so a batch that is moved
again after a crash adds nothing. What the store refuses for good becomes a dead letter there, and holds up no other
sequence. The end of a sequence is moved when its messages have been removed from the stage: the store may forget a
sequence after its end, and nothing of it is repeated later.
"""
