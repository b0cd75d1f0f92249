"""A client and a server that accept members with different stores: ``mercury serve
tests.trial.planted.accepting:client``, or ``:server``.
"""

from __future__ import annotations

from fastapi import FastAPI

from mercury.trial.programs import client as right_client
from mercury.trial.programs import server as right_server
from tests.trial.other_stores import accept_other_stores


def client() -> FastAPI:
    accept_other_stores()
    return right_client.app()


def server() -> FastAPI:
    accept_other_stores()
    return right_server.app()
