"""Not a rival but the base for latency: a commit, a bare POST, and the commit of its handler, one after the other.

Nothing is retried, so a failure in between loses the row.
"""

from benchmarks.rivals.settings import PORT, SERVER

# --- user code begin
# isort: split
import http.client

import psycopg
import uvicorn

http_server = http.client.HTTPConnection("127.0.0.1", PORT)


def enqueue(connection, number, text):
    """Called before the commit; `committed` posts the row."""


def committed(number, text):
    http_server.request("POST", f"/{number}", text.encode())
    http_server.getresponse().read()


database = None


async def app(scope, receive, send):
    global database
    event = await receive()
    database = database or await psycopg.AsyncConnection.connect(SERVER, autocommit=True)
    text = event["body"].decode()
    await database.execute("insert into received(id, text) values (%s, %s)", (int(scope["path"][1:]), text))
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


def server():
    config = {"loop": "uvloop", "http": "httptools", "access_log": False, "log_level": "warning", "lifespan": "off"}
    uvicorn.run(app, port=PORT, **config)


# --- user code end
ROLES = {"server": server}
