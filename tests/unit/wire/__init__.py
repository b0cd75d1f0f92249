"""The codec: published messages, peers' messages, everything Mercury emits, and everything an attacker may send."""
