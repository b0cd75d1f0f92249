"""An outbox and NATS JetStream. Version 2.9 acknowledges before it flushes, so this way is not durable."""

from benchmarks.rivals.outbox_table import CLIENT_TABLES, SERVER_TABLES, enqueue  # noqa: F401
from benchmarks.rivals.settings import CLIENT, NATS, QUEUE, SERVER

# --- user code begin
# isort: split
import asyncio
import json

import nats
import psycopg

from benchmarks.rivals.outbox_table import DELETE, POLL, TAKE, WAITING


async def open_stream():
    stream = (await nats.connect(NATS)).jetstream()
    while True:
        try:
            await stream.add_stream(name=QUEUE, subjects=[QUEUE])
            return stream
        except nats.js.errors.BadRequestError:  # the other process is making it
            await asyncio.sleep(POLL)


async def relay():
    database = await psycopg.AsyncConnection.connect(CLIENT)
    stream = await open_stream()

    def publish(message_id, number, text):
        body = json.dumps({"id": number, "text": text}).encode()
        return stream.publish(QUEUE, body, timeout=10, headers={"Nats-Msg-Id": str(message_id)})

    while True:
        rows = await (await database.execute(WAITING)).fetchall()
        await asyncio.gather(*(publish(*row[1:]) for row in rows))
        if rows:
            await database.execute(DELETE, ([row[0] for row in rows],))
        await database.commit()
        if not rows:
            await asyncio.sleep(POLL)


async def server():
    database = await psycopg.AsyncConnection.connect(SERVER)
    subscription = await (await open_stream()).pull_subscribe(QUEUE, durable="server")
    while True:
        try:
            messages = await subscription.fetch(50, timeout=5)
        except nats.errors.TimeoutError:
            continue
        for message in messages:
            row = json.loads(message.data)
            async with database.transaction():
                await database.execute(TAKE, (message.headers["Nats-Msg-Id"], row["id"], row["text"]))
            await message.ack()


# --- user code end
ROLES = {"server": server, "relay": relay}
