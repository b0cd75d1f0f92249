"""The operator's API: what `mercury` commands with ``--at`` ask a running process for.

A request carries a token in its Authorization header, and JSON: no cookie counts, so a page of another site can make a
browser send nothing that is accepted.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse

from mercury.console.blocking import BlockingCalls
from mercury.console.logins import Logins, TooManyAttempts
from mercury.console.requests import Refused, check_host
from mercury.console.settings import ConsoleSettings
from mercury.console.users import ConsoleRole, ConsoleUser, clean_name
from mercury.engine.lateness import WatchSettings
from mercury.errors import ConfigurationError, MercuryError, StorageError
from mercury.operations.acting import NotPossible
from mercury.operations.calls.call import Calls, UnknownCall
from mercury.operations.calls.database import calls_of
from mercury.operations.calls.memory import calls_in_memory
from mercury.operations.operator import Operations
from mercury.service import paths
from mercury.storage.api import StorageManager
from mercury.storage.audit import Actor, Via
from mercury.storage.callers import network_of
from mercury.storage.searching import UnknownPlace
from mercury.storage.sql.store import SqlStore

#: Bytes of a request: it may hold the edited copy of a message.
MOST_BYTES = 4 * 1024 * 1024


def calls_on(store: StorageManager, clock: Callable[[], float], watch: WatchSettings | None = None) -> Calls[Any]:
    """The calls on a store of any kind.

    :param clock: seconds since the epoch.
    :param watch: the ages from which on a waiting message is a problem.
    """
    if isinstance(store, SqlStore):
        return calls_of(Operations(store, clock, watch))
    return calls_in_memory(store, clock)


class OperatorApi:
    """Answers calls of operators and readers.

    :param clock: seconds since the epoch.
    :raises ConfigurationError: there is no token, so no client could call.
    """

    def __init__(self, calls: Calls[Any], settings: ConsoleSettings, clock: Callable[[], float]) -> None:
        if settings.token is None and settings.reader_token is None:
            raise ConfigurationError("console.token: no client could use the operator's API: set it, or the reader's")
        self._calls = calls
        self._hosts = settings.hosts
        self._logins = Logins(settings.token, settings.reader_token)
        self._blocking = BlockingCalls(settings.timeout)
        self._clock = clock

    async def answer(self, request: Request) -> JSONResponse:
        """The answer to a request: 200 with the result; otherwise ``error`` says why.

        400: an argument is not valid. 401: no token, or another one. 403, 421: only an operator may do it, or the
        request comes from elsewhere (`check_host`). 404: no such call. 409: the action cannot be done. 413, 415: no
        JSON of a bearable size. 429: too many wrong tokens. 503: the store fails or does not answer.
        """
        try:
            return JSONResponse(await self._result(request))
        except Refused as error:
            return JSONResponse({"error": str(error)}, error.status)
        except TooManyAttempts as error:
            wait = {"retry-after": str(int(error.seconds) + 1)}
            return JSONResponse({"error": "too many wrong tokens; try again later"}, 429, wait)
        except UnknownCall as error:
            return JSONResponse({"error": f"there is no call {error}"}, 404)
        except TimeoutError:
            text = "the store has not answered in time; what was asked for may still be done"
            return JSONResponse({"error": text}, 503)
        except StorageError as error:
            return JSONResponse({"error": str(error)}, 503)
        except NotPossible as error:
            return JSONResponse({"error": str(error)}, 409)
        except UnknownPlace as error:
            return JSONResponse({"error": str(error), "argument": "after"}, 400)
        except (ValueError, MercuryError) as error:
            return JSONResponse({"error": str(error)}, 400)

    async def _result(self, request: Request) -> Any:
        headers = dict(reversed(request.headers.items()))
        client = request.client.host if request.client is not None else None
        check_host(headers, client, self._hosts)
        user = self._user(headers, client)
        name = request.path_params["call"]
        if self._calls.changes(name) and user.role is not ConsoleRole.OPERATOR:
            raise Refused(403, "A reader may not do this: give the token of operators (console.token).")
        by, given = await _arguments(request, headers)
        actor = Actor(clean_name(by) or user.name, Via.API)
        return await self._blocking.run(partial(self._calls.run, name, given, actor))

    def _user(self, headers: dict[str, str], client: str | None) -> ConsoleUser:
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise Refused(401, "The Authorization header has no bearer token.")
        user = self._logins.check(token.strip(), "", network_of(client or ""), self._clock())
        if user is None:
            raise Refused(401, "This token is not accepted.")
        return user


def operator_router(api: OperatorApi) -> APIRouter:
    """The route of the API: one for all calls."""
    router = APIRouter()
    router.add_api_route(
        f"{paths.OPERATE}/{{call}}", api.answer, methods=["POST"], response_model=None, include_in_schema=False
    )
    return router


async def _arguments(request: Request, headers: dict[str, str]) -> tuple[str, dict[str, object]]:
    """Who acts, as the caller says, and the arguments."""
    if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Refused(415, "The request is not of the type application/json.")
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MOST_BYTES:
            raise Refused(413, f"The request is larger than {MOST_BYTES} bytes.")
    try:
        asked = json.loads(bytes(body))
    except (ValueError, RecursionError) as error:
        raise Refused(400, "The request is not JSON.") from error
    by, given = (asked.get("by", ""), asked.get("arguments", {})) if isinstance(asked, dict) else (None, None)
    if not isinstance(by, str) or not isinstance(given, dict):
        raise Refused(400, 'The request is not {"by": NAME, "arguments": {...}}.')
    return by, given
