"""As `rabbit`, tuned: the confirms of a window are awaited together, and 50 rows share a transaction of the server."""

from benchmarks.rivals.outbox_table import CLIENT_TABLES, SERVER_TABLES, enqueue  # noqa: F401
from benchmarks.rivals.settings import AMQP, BATCH, CLIENT, QUEUE, SERVER

# --- user code begin
# isort: split
import asyncio
import json

import aio_pika
import pika
import psycopg

from benchmarks.rivals.outbox_table import DELETE, POLL, TAKE_MANY, WAITING

QUORUM = {"x-queue-type": "quorum"}


async def publish_all():
    database = await psycopg.AsyncConnection.connect(CLIENT)
    broker = await aio_pika.connect(AMQP)
    channel = await broker.channel(publisher_confirms=True)
    await channel.declare_queue(QUEUE, durable=True, arguments=QUORUM)

    def publish(message_id, number, text):
        body = json.dumps({"id": number, "text": text}).encode()
        mode = aio_pika.DeliveryMode.PERSISTENT
        message = aio_pika.Message(body, message_id=str(message_id), delivery_mode=mode)
        return channel.default_exchange.publish(message, QUEUE, mandatory=True)

    while True:
        rows = await (await database.execute(WAITING)).fetchall()
        await asyncio.gather(*(publish(*row[1:]) for row in rows))
        if rows:
            await database.execute(DELETE, ([row[0] for row in rows],))
        await database.commit()
        if not rows:
            await asyncio.sleep(POLL)


def relay():
    asyncio.run(publish_all())


def server():
    database = psycopg.connect(SERVER)
    channel = pika.BlockingConnection(pika.URLParameters(AMQP)).channel()
    channel.queue_declare(QUEUE, durable=True, arguments=QUORUM)
    channel.basic_qos(prefetch_count=4 * BATCH)
    came = []
    for method, properties, body in channel.consume(QUEUE, inactivity_timeout=0.002):
        if method is not None:
            row = json.loads(body)
            came.append((properties.message_id, row["id"], row["text"]))
            last = method.delivery_tag
        if came and (method is None or len(came) >= BATCH):
            with database.transaction():
                database.execute(TAKE_MANY, [list(column) for column in zip(*came, strict=True)])
            channel.basic_ack(last, multiple=True)
            came.clear()


# --- user code end
ROLES = {"server": server, "relay": relay}
