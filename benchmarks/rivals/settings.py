"""What the benchmark sets for a way, from environment variables."""

import os

CLIENT = os.environ.get("CLIENT_DATABASE", "")
SERVER = os.environ.get("SERVER_DATABASE", "")
PORT = int(os.environ.get("HTTP_PORT", "0"))
#: Rows in a request, or in a transaction of the server.
BATCH = int(os.environ.get("BATCH", "1"))
AMQP = os.environ.get("AMQP_URL", "")
NATS = os.environ.get("NATS_URL", "")
#: The queue, which is new in each round.
QUEUE = os.environ.get("QUEUE", "orders")
