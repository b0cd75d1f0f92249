"""The two applications that are killed: a client that sends orders, and a server that receives them."""
