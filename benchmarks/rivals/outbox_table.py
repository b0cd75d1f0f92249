"""The outbox and inbox tables, which all ways with an outbox use; counted with each of them."""

# --- user code begin
import uuid

CLIENT_TABLES = """
    create table outbox(id bigserial primary key, message_id uuid not null, row_id bigint not null, text text not null)
"""
SERVER_TABLES = "create table inbox(message_id uuid primary key)"
#: Seconds between two polls of an empty outbox.
POLL = 0.05
WAITING = "select id, message_id, row_id, text from outbox order by id limit 100 for update"
DELETE = "delete from outbox where id = any(%s)"
TAKE = """
    with fresh as (insert into inbox values (%s) on conflict do nothing returning 1)
    insert into received(id, text) select %s, %s from fresh
"""
TAKE_MANY = """
    with came as (select * from unnest(%s::uuid[], %s::bigint[], %s::text[]) as rows(message_id, id, text)),
    fresh as (insert into inbox select message_id from came on conflict do nothing returning message_id)
    insert into received(id, text) select id, text from came join fresh using (message_id) order by id
"""


def enqueue(connection, number, text):
    connection.execute("insert into outbox(message_id, row_id, text) values (%s, %s, %s)", (uuid.uuid4(), number, text))


# --- user code end
