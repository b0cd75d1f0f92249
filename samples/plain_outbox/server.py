"""The server: inserts each row that is posted to it."""

import argparse
import json
import sqlite3
import time
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

parser = argparse.ArgumentParser(prog="python -m samples.plain_outbox.server", description=__doc__)
parser.add_argument("port", type=int)
parser.add_argument("database")


def handler(database: str) -> type[BaseHTTPRequestHandler]:
    class Inbox(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            row = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with closing(sqlite3.connect(database, timeout=30)) as inbox, inbox:
                inbox.execute(
                    "insert into inbox (batch, number, body, checksum, received_at) values (?, ?, ?, ?, ?)",
                    [row["batch"], row["number"], row["body"], row["checksum"], time.time()],
                )
            self._answer()

        def _answer(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    return Inbox


def main(port: int, database: str) -> None:
    with ThreadingHTTPServer(("127.0.0.1", port), handler(database)) as server:
        server.serve_forever()


if __name__ == "__main__":
    main(**vars(parser.parse_args()))
