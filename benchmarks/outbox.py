"""A hand-written outbox for comparison: an outbox table, a relay that posts a row in each request, and an inbox table.

Rows and outbox are written in one transaction, the inbox's primary key prevents repetition, and both sides keep their
connections open. The order is not kept when a row fails, and the protocol is private to this program.
"""

from __future__ import annotations

import http.client
import json
import socket
import sys
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
import uvicorn
from fastapi import FastAPI
from psycopg.rows import TupleRow
from pydantic import BaseModel

CLIENT_TABLES = """
    create table outbox(id bigserial primary key, message_id uuid not null, row_id bigint not null, text text not null)
"""
SERVER_TABLES = "create table inbox(message_id uuid primary key)"
INSERT = """
    with fresh as (insert into inbox values (%s) on conflict do nothing returning 1)
    insert into received(id, text) select %s, %s from fresh
"""
#: Seconds between two polls of an empty outbox.
POLL = 0.05
#: Seconds before rows that could not be posted are posted again.
AGAIN = 0.2


class Row(BaseModel):
    message_id: uuid.UUID
    id: int
    text: str


def enqueue(connection: psycopg.Connection[TupleRow], number: int, text: str) -> None:
    """Add a row to the outbox, in the transaction of the application."""
    connection.execute("insert into outbox(message_id, row_id, text) values (%s, %s, %s)", (uuid.uuid4(), number, text))


def relay(database: str, port: int) -> None:
    """Post the rows of the outbox until the process is ended."""
    connection = psycopg.connect(database)
    server = http.client.HTTPConnection("127.0.0.1", port)
    while True:
        rows = connection.execute("select * from outbox order by id limit 100 for update").fetchall()
        try:
            for _, message_id, number, text in rows:
                body = json.dumps({"message_id": str(message_id), "id": number, "text": text})
                server.request("POST", "/rows", body, {"Content-Type": "application/json"})
                answer = server.getresponse()
                answer.read()
                if answer.status != 200:
                    raise http.client.HTTPException(f"HTTP status {answer.status}")
        except (OSError, http.client.HTTPException):
            connection.rollback()
            server.close()
            time.sleep(AGAIN)
            continue
        if rows:
            connection.execute("delete from outbox where id = any(%s)", ([row[0] for row in rows],))
        connection.commit()
        if not rows:
            time.sleep(POLL)


def serve(database: str, listener: socket.socket) -> None:
    """Run the server until the process is ended."""
    state: dict[str, psycopg.AsyncConnection[TupleRow]] = {}

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with await psycopg.AsyncConnection.connect(database) as connection:
            state["connection"] = connection
            yield

    app = FastAPI(lifespan=lifespan)

    @app.post("/rows")
    async def take(row: Row) -> dict[str, bool]:
        connection = state["connection"]
        async with connection.transaction():
            await connection.execute(INSERT, (row.message_id, row.id, row.text))
        return {"ok": True}

    config = uvicorn.Config(app, log_level="warning", access_log=False)
    uvicorn.Server(config).run(sockets=[listener])


def main() -> None:
    role, database, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if role == "relay":
        relay(database, port)
    with socket.create_server(("127.0.0.1", port)) as listener:
        serve(database, listener)


if __name__ == "__main__":
    main()
