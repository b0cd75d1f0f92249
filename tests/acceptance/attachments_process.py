"""A process that sends attachments to itself over a socket, and prints its peak memory after each: JSON, one per line.

Arguments: the URLs of the client's and of the server's store, and sizes in bytes.
"""

from __future__ import annotations

import hashlib
import json
import resource
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from mercury import Attachment, EngineSettings, HttpSettings, Limits, Mercury, Service, Settings

#: The timeout of an exchange with the largest size on a slow machine, in seconds.
MINUTES = 300.0
PIECE = bytes(range(256)) * 256


@dataclass
class Scan:
    image: Attachment


@dataclass
class Stored:
    size: int
    digest: str


def pieces(size: int) -> Iterator[bytes]:
    for start in range(0, size, len(PIECE)):
        yield PIECE[: size - start]


def measured(content: Attachment | Iterator[bytes]) -> Stored:
    size, found = 0, hashlib.sha256()
    for piece in content:
        size += len(piece)
        found.update(piece)
    return Stored(size, found.hexdigest())


def main(client_store: str, server_store: str, sizes: list[int]) -> None:
    largest = max(sizes) + 1024 * 1024
    engine = EngineSettings(limits=Limits(max_bytes_with_attachments=largest))
    http = HttpSettings(max_receiving_bytes=2 * largest, receive_timeout=MINUTES, timeout=MINUTES)
    service = Service("archive")

    @service.operation
    def scan(what: Scan) -> Stored:
        return measured(what.image)

    with (
        Mercury(settings=Settings(store=server_store, engine=engine, http=http)) as server,
        Mercury(settings=Settings(store=client_store, engine=engine, http=http)) as client,
    ):
        sender = client.to(server.listen(service) + "/services/archive")
        for size in sizes:
            stored = sender.request(Scan(Attachment(pieces(size))), response=Stored).result(MINUTES)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            whole = stored == measured(pieces(size))
            sys.stdout.write(json.dumps({"size": stored.size, "whole": whole, "peak": peak}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], [int(size) for size in sys.argv[3:]])
