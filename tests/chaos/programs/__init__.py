"""The two applications that are killed: a client that has orders to send, a server that takes them."""
