"""The console's router for an application of one's own."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

#: The methods of pages and actions.
METHODS = ("GET", "POST")


class _Inner(Response):
    """The response of the route: the console handles the request when FastAPI sends this response."""

    def __init__(self, app: ASGIApp, base: str) -> None:
        super().__init__()
        self._app = app
        self._base = base

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app({**scope, "root_path": self._base}, receive, send)


def router_of(app: ASGIApp, path: str) -> APIRouter:
    """A router with the console below a path. Dependencies that it is included with guard the console too.

    :param path: for example ``/console``; below the prefix of the router that includes this one.
    """
    router = APIRouter()

    async def page(request: Request) -> Response:
        inner = request.path_params["page"]
        whole: str = request.scope["path"]
        return _Inner(app, whole[: len(whole) - len(inner) - 1])

    async def start(request: Request) -> Response:
        return RedirectResponse(f"{request.scope['path'].rpartition('/')[2]}/", 307)

    prefix = path.rstrip("/")
    if prefix:
        router.add_api_route(prefix, start, methods=["GET"], response_model=None, include_in_schema=False)
    router.add_api_route(
        f"{prefix}/{{page:path}}", page, methods=list(METHODS), response_model=None, include_in_schema=False
    )
    return router
