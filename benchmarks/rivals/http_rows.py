"""An outbox and HTTP POST (httpx) to FastAPI, with up to ``BATCH`` rows in a request and in its transaction."""

from benchmarks.rivals.outbox_table import CLIENT_TABLES, SERVER_TABLES, enqueue  # noqa: F401
from benchmarks.rivals.settings import BATCH, CLIENT, PORT, SERVER

# --- user code begin
# isort: split
import time
from contextlib import asynccontextmanager
from uuid import UUID

import httpx
import psycopg
import uvicorn
from fastapi import FastAPI
from psycopg_pool import AsyncConnectionPool
from pydantic import BaseModel

from benchmarks.rivals.outbox_table import DELETE, POLL, TAKE_MANY, WAITING


def relay():
    database = psycopg.connect(CLIENT)
    http = httpx.Client(timeout=10, base_url=f"http://127.0.0.1:{PORT}")
    while True:
        rows = database.execute(WAITING).fetchall()
        try:
            for low in range(0, len(rows), BATCH):
                body = [{"message_id": str(row[1]), "id": row[2], "text": row[3]} for row in rows[low : low + BATCH]]
                http.post("/rows", json=body).raise_for_status()
        except httpx.HTTPError:
            database.rollback()
            time.sleep(0.2)
            continue
        if rows:
            database.execute(DELETE, ([row[0] for row in rows],))
        database.commit()
        if not rows:
            time.sleep(POLL)


class Row(BaseModel):
    message_id: UUID
    id: int
    text: str


def server():
    pool = AsyncConnectionPool(SERVER, min_size=2, max_size=4, open=False)

    @asynccontextmanager
    async def lifespan(_app):
        async with pool:
            yield

    app = FastAPI(lifespan=lifespan)

    @app.post("/rows")
    async def take(rows: list[Row]):
        columns = [row.message_id for row in rows], [row.id for row in rows], [row.text for row in rows]
        async with pool.connection() as database:
            await database.execute(TAKE_MANY, columns)
        return {"ok": len(rows)}

    uvicorn.run(app, port=PORT, loop="uvloop", http="httptools", access_log=False, log_level="warning")


# --- user code end
ROLES = {"server": server, "relay": relay}
