"""The soak: an hour of orders while processes are killed and stopped, and the network is cut, at random."""
