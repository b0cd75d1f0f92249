"""procrastinate: jobs in the client's database, whose task writes into the server's."""

from benchmarks.rivals.settings import CLIENT, SERVER

# --- user code begin
# isort: split
import uuid

import procrastinate
import psycopg

SERVER_TABLES = "create table inbox(message_id uuid primary key)"
TAKE = """
    with fresh as (insert into inbox values (%s) on conflict do nothing returning 1)
    insert into received(id, text) select %s, %s from fresh
"""
jobs = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=CLIENT))
defers = procrastinate.App(connector=procrastinate.SyncPsycopgConnector(conninfo=CLIENT))
server = None


@defers.task(name="move", queue="orders")
@jobs.task(name="move", queue="orders")
async def move(message_id, number, text):
    global server
    server = server or await psycopg.AsyncConnection.connect(SERVER, autocommit=True)
    await server.execute(TAKE, (message_id, number, text))


def enqueue(connection, number, text):
    task = defers.configure_task("move", queue="orders", connection=connection)
    task.defer(message_id=str(uuid.uuid4()), number=number, text=text)


async def relay():
    async with jobs.open_async():
        await jobs.run_worker_async(
            queues=["orders"], concurrency=1, delete_jobs="successful", fetch_job_polling_interval=0.05
        )


# --- user code end


async def make_tables():
    async with jobs.open_async():
        await jobs.schema_manager.apply_schema_async()


ROLES = {"relay": relay, "tables": make_tables}
