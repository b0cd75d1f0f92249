"""The client: posts each row of its table to the server, and marks it as sent, before or after that."""

import argparse
import http.client
import json
import sqlite3
import time
from urllib.parse import urlsplit

#: Seconds between two polls of the table, before a retry, and for one exchange.
POLL_INTERVAL, RETRY_DELAY, TIMEOUT = 0.02, 0.1, 2.0

parser = argparse.ArgumentParser(prog="python -m samples.plain_outbox.client", description=__doc__)
parser.add_argument("url")
parser.add_argument("database")
parser.add_argument("--mark", choices=("before", "after"), default="after")


def post(url: str, row: dict[str, object]) -> None:
    """Post a row on a connection of its own, again and again until it is answered."""
    while True:
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=TIMEOUT)
        try:
            connection.request("POST", "/", json.dumps(row))
            if connection.getresponse().status == 200:
                return
        except (OSError, http.client.HTTPException):
            pass
        finally:
            connection.close()
        time.sleep(RETRY_DELAY)


def main(url: str, database: str, mark: str) -> None:
    outbox = sqlite3.connect(database, timeout=30, isolation_level=None)
    outbox.row_factory = sqlite3.Row
    while True:
        row = outbox.execute(
            "select id, batch, number, checksum, body from outbox where not sent order by id"
        ).fetchone()
        if row is None:
            time.sleep(POLL_INTERVAL)
            continue
        message = dict(row)
        identifier = message.pop("id")
        for step in ("mark", "post") if mark == "before" else ("post", "mark"):
            if step == "post":
                post(url, message)
            else:
                outbox.execute("update outbox set sent = 1 where id = ?", [identifier])


if __name__ == "__main__":
    main(**vars(parser.parse_args()))
