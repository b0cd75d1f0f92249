"""An outbox and a RabbitMQ quorum queue, each message confirmed and consumed on its own."""

from benchmarks.rivals.outbox_table import CLIENT_TABLES, SERVER_TABLES, enqueue  # noqa: F401
from benchmarks.rivals.settings import AMQP, CLIENT, QUEUE, SERVER

# --- user code begin
# isort: split
import json

import pika
import psycopg

from benchmarks.rivals.outbox_table import DELETE, POLL, TAKE, WAITING


def open_channel():
    broker = pika.BlockingConnection(pika.URLParameters(AMQP))
    channel = broker.channel()
    channel.queue_declare(QUEUE, durable=True, arguments={"x-queue-type": "quorum"})
    return broker, channel


def relay():
    database = psycopg.connect(CLIENT)
    broker, channel = open_channel()
    channel.confirm_delivery()
    while True:
        rows = database.execute(WAITING).fetchall()
        for _, message_id, number, text in rows:
            properties = pika.BasicProperties(delivery_mode=2, message_id=str(message_id))
            channel.basic_publish("", QUEUE, json.dumps({"id": number, "text": text}).encode(), properties, True)
        if rows:
            database.execute(DELETE, ([row[0] for row in rows],))
        database.commit()
        if not rows:
            broker.sleep(POLL)


def server():
    database = psycopg.connect(SERVER)
    _, channel = open_channel()

    def take(channel, method, properties, body):
        row = json.loads(body)
        with database.transaction():
            database.execute(TAKE, (properties.message_id, row["id"], row["text"]))
        channel.basic_ack(method.delivery_tag)

    channel.basic_qos(prefetch_count=100)
    channel.basic_consume(QUEUE, take)
    channel.start_consuming()


# --- user code end
ROLES = {"server": server, "relay": relay}
