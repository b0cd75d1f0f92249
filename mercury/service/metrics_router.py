"""The route of the metrics."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from mercury.service import paths
from mercury.service.host import NO_ANSWER, REFUSALS, TIMEOUT
from mercury.service.status_access import access
from mercury.service.store_query import StoreQuery


def metrics_router(
    text: Callable[[], bytes], content_type: str, token: str | None, timeout: float = TIMEOUT
) -> APIRouter:
    """The route ``/metrics``, for the requests that may read the status of sequences: see `access`.

    :param text: returns the metrics; it may query the store, and so may block.
    :param token: the setting ``http.status_token``.
    :param timeout: seconds that a request waits for the store; after that the answer is 503.
    """
    router = APIRouter()
    found = StoreQuery("mercury-metrics", text, timeout)

    @router.get(paths.METRICS)
    async def metrics(request: Request) -> Response:
        client = request.client.host if request.client is not None else None
        granted = access(request.headers, client, token, request.scope.get("http_version", "1.1"))
        if granted in REFUSALS:
            return JSONResponse({"error": REFUSALS[granted]}, granted.value)
        try:
            return Response(await found.answer(), media_type=content_type)
        except TimeoutError:
            return JSONResponse({"error": NO_ANSWER}, 503)

    return router
