"""The soak: orders for an hour between processes that are killed, stopped and cut off at random."""
