"""The console as an ASGI application: pages and actions of users who are let in, logins, errors, the live stream."""

from __future__ import annotations

import contextlib
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from importlib.resources import files
from types import MappingProxyType

from fastapi import APIRouter, FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp

from mercury.console.blocking import BlockingCalls
from mercury.console.gate import Caller, Gate, may_act
from mercury.console.headers import DOCUMENT_POLICY, SecurityHeaders
from mercury.console.live import Streams, wants_stream
from mercury.console.logins import TooManyAttempts
from mercury.console.problems import Problem, problem_of
from mercury.console.readings import Readings
from mercury.console.rendering import Templates
from mercury.console.requests import Refused, read_query
from mercury.console.settings import ConsoleSettings
from mercury.console.users import ConsoleAccess, clean_name
from mercury.console.visits import Document, Done, View, Visit, link

log = logging.getLogger("mercury.console")

PageFunction = Callable[[Visit], View | Document]
ActionFunction = Callable[[Visit], Done | View]

#: The pages of the navigation: name, label and access key.
NAVIGATION = (
    ("", "Overview", "1"),
    ("sequences", "Sequences", "2"),
    ("messages", "Messages", "3"),
    ("letters", "Dead letters", "4"),
    ("services", "Services", "5"),
    ("doubt", "In doubt", "6"),
    ("nodes", "Nodes", "7"),
    ("reconcile", "Reconcile", "8"),
    ("audit", "Audit", "9"),
)
#: The page of the navigation that lists what other pages show, by the first word of their names.
LISTS = MappingProxyType(
    {
        "sequence": "sequences",
        "message": "messages",
        "settled": "messages",
        "letter": "letters",
        "bulk": "letters",
        "service": "services",
        "report": "reconcile",
    }
)
STATIC = MappingProxyType(
    {
        "console.css": "text/css; charset=utf-8",
        "console.js": "text/javascript; charset=utf-8",
        "icon.svg": "image/svg+xml",
    }
)
READERS = "You are logged in as a reader: log in with the token of operators to change the store."
#: Characters of a link behind a note: a longer one is left out, for the note has a limit.
MAX_LINK = 500
#: The relative addresses to which a login may lead.
_OWN = re.compile(r"[a-z-]*(\?[^\s\\]*)?")


class Site:
    """The console's pages behind its gate.

    :param name: the store's name for people, which every page shows.
    :param clock: seconds since the epoch.
    :param secret: returns a random text that cannot be guessed.
    :param monotonic: seconds that never go back, for the age of readings that open pages share.
    :raises ConfigurationError: no user could log in.
    """

    def __init__(
        self,
        name: str,
        settings: ConsoleSettings,
        access: ConsoleAccess | None,
        clock: Callable[[], float],
        secret: Callable[[], str],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._clock = clock
        self._blocking = BlockingCalls(settings.timeout)
        self.gate = Gate(settings, access, self._blocking, clock, secret)
        self._templates = Templates(settings.time_zone)
        self._streams = Streams(settings.refresh)
        self._readings: Readings[View | Document] = Readings(settings.refresh, monotonic)
        self._router = APIRouter()
        self._route("static/{file}", "GET", self._static)
        if self.gate.by_token:
            self._route("login", "GET", self._login_page)
            self._route("login", "POST", self._login)
            self._route("logout", "POST", self._logout)

    # --- what is served --------------------------------------------------------------------------------------------

    def page(self, name: str, function: PageFunction) -> None:
        """Add a page. The function reads the store, in a thread.

        What it returns depends on the page's query, the user's role, the store and the time, and on nothing else of the
        visit: open pages share it.
        """
        self._route(name, "GET", partial(self._page, name, function))

    def question(self, name: str, function: PageFunction) -> None:
        """Add the page that asks before an action of the same name, for operators only."""

        def ask(visit: Visit) -> View | Document:
            if not visit.is_operator:
                raise Refused(403, READERS)
            return function(visit)

        self.page(name, ask)

    def action(self, name: str, function: ActionFunction) -> None:
        """Add an action, which operators only may use. The function changes the store, in a thread."""
        self._route(name, "POST", partial(self._act, name, function))

    def application(self) -> ASGIApp:
        """The ASGI application."""
        app = FastAPI(title="Mercury console", docs_url=None, redoc_url=None, openapi_url=None)
        app.router.redirect_slashes = False
        app.include_router(self._router)
        app.add_exception_handler(HTTPException, self._http_error)
        return SecurityHeaders(app)

    def _route(self, name: str, method: str, function: Callable[[Request], Awaitable[Response]]) -> None:
        async def endpoint(request: Request) -> Response:
            return await self._guarded(request, function)

        self._router.add_api_route(f"/{name}", endpoint, methods=[method], response_model=None, include_in_schema=False)

    # --- requests --------------------------------------------------------------------------------------------------

    async def _guarded(self, request: Request, function: Callable[[Request], Awaitable[Response]]) -> Response:
        try:
            return await function(request)
        except Exception as error:
            problem = problem_of(error)
            if problem.unexpected:
                log.exception("the console failed at %s", request.url.path)
            return await self._problem_page(request, problem)

    async def _problem_page(self, request: Request, problem: Problem) -> Response:
        """An error as a page, with the navigation for a user who is let in."""
        page = request.url.path.rpartition("/")[2].partition("-")[0]
        section = LISTS.get(page, page)
        lists = [(name, label) for name, label, _ in NAVIGATION if name and name == section]
        values: dict[str, object] = {"problem": problem, "section": section, "lists": lists}
        caller = None
        with contextlib.suppress(Refused, TimeoutError):
            caller = await self.gate.enter(request)
            if caller.user is not None:
                values["visit"] = Visit(page="problem", user=caller.user, now=self._clock())
        return await self._rendered(caller, "problem.html", values, problem.status)

    async def _page(self, name: str, function: PageFunction, request: Request) -> Response:
        caller = await self.gate.enter(request)
        if caller.user is None:
            return self._not_logged_in(request, caller)
        visit = Visit(page=name, query=read_query(request.url.query), user=caller.user, now=self._clock())
        if wants_stream(request):
            return self._streams.response(request, partial(self._again, name, function, request, caller))
        of = _read_page(request, visit)
        view = await self._blocking.run(lambda: self._readings.new(of, lambda: function(visit)))
        if isinstance(view, Document):
            return HTMLResponse(view.body, headers={"content-security-policy": DOCUMENT_POLICY})
        return await self._answer(request, caller, visit, view)

    async def _again(self, name: str, function: PageFunction, request: Request, caller: Caller) -> str | None:
        """The changing part of an open page as HTML; ``None`` = the user is not let in any more."""

        def read() -> str | None:
            if caller.user is None or not self.gate.still_in(caller, request):
                return None
            visit = Visit(page=name, query=read_query(request.url.query), user=caller.user, now=self._clock())
            view = self._readings.shared(_read_page(request, visit), lambda: function(visit))
            if isinstance(view, Document):
                return None
            return self._templates.render(view.template, self._values(caller, visit, view, "part.html"))

        return await self._blocking.run(read)

    async def _act(self, name: str, function: ActionFunction, request: Request) -> Response:
        caller = await self.gate.enter_with_form(request)
        if caller.user is None:
            return self._not_logged_in(request, caller)
        if not may_act(caller.user):
            raise Refused(403, READERS)
        visit = Visit(
            page=name, query=read_query(request.url.query), form=caller.form, user=caller.user, now=self._clock()
        )
        done = await self._blocking.run(partial(function, visit))
        if isinstance(done, View):
            return await self._answer(request, caller, visit, done)
        more = done.more if done.more is not None and len(done.more[0]) <= MAX_LINK else ("", "")
        caller.next_note = "\n".join((done.tone.value, *more, done.note))
        response = RedirectResponse(done.to, 303)
        self.gate.finish(request, caller, response)
        return response

    async def _answer(self, request: Request, caller: Caller, visit: Visit, view: View) -> Response:
        values = self._values(caller, visit, view, "base.html")
        response = HTMLResponse(
            await self._blocking.run(partial(self._templates.render, view.template, values)), view.status
        )
        self.gate.finish(request, caller, response)
        return response

    def _values(self, caller: Caller, visit: Visit, view: View, layout: str) -> dict[str, object]:
        tone, href, label, note = caller.note.split("\n", 3) if caller.note.count("\n") >= 3 else ("", "", "", "")
        return {
            "layout": layout,
            "visit": visit,
            "note": note,
            "tone": tone,
            "note_more": (href, label) if href else None,
            "form_token": self.gate.sessions.form_token(caller.session),
            **self._frame(),
            **view.values,
        }

    def _frame(self) -> dict[str, object]:
        return {
            "navigation": NAVIGATION,
            "store_name": self._name,
            "by_token": self.gate.by_token,
            "now": self._clock(),
        }

    async def _rendered(
        self, caller: Caller | None, template: str, values: Mapping[str, object], status: int
    ) -> Response:
        token = self.gate.sessions.form_token(caller.session) if caller is not None else ""
        every = {
            "layout": "base.html",
            "visit": None,
            "note": "",
            "tone": "",
            "form_token": token,
            **self._frame(),
            **values,
        }
        return HTMLResponse(self._templates.render(template, every), status)

    # --- logins ----------------------------------------------------------------------------------------------------

    def _not_logged_in(self, request: Request, caller: Caller) -> Response:
        if not self.gate.by_token:
            raise Refused(403, "The application does not let you use the console.")
        if wants_stream(request):
            return Response(status_code=204)  # the browser does not ask again
        query = f"?{request.url.query}" if request.url.query else ""
        after = request.url.path.rpartition("/")[2] + query if request.method == "GET" else ""
        response = RedirectResponse(link("login", after=after), 303)
        self.gate.finish(request, caller, response)
        return response

    async def _login_page(self, request: Request) -> Response:
        caller = await self.gate.enter(request)
        query = read_query(request.url.query)
        ticket, after = ((query.get(name) or [""])[0] for name in ("ticket", "after"))
        if ticket:
            return await self._log_in(request, caller, ticket, "", "")
        return await self._login_form(request, caller, "", after, "", 200)

    async def _login(self, request: Request) -> Response:
        caller = await self.gate.enter_with_form(request)
        token, name, after = ((caller.form.get(each) or [""])[0].strip() for each in ("token", "name", "after"))
        if not clean_name(name):
            text = "Say who you are: the audit names who did what."
            return await self._login_form(request, caller, "", after, text, 400)
        return await self._log_in(request, caller, token, name, after)

    async def _log_in(self, request: Request, caller: Caller, token: str, name: str, after: str) -> Response:
        try:
            found = self.gate.log_in(request, caller, token, name)
        except TooManyAttempts as error:
            text = f"Too many attempts. Try again in {error.seconds:.0f} seconds."
            response = await self._login_form(request, caller, name, after, text, 429)
            response.headers["retry-after"] = str(int(error.seconds) + 1)
            return response
        if not found:
            log.warning("the console refuses a login from %s", request.client.host if request.client else "nowhere")
            return await self._login_form(request, caller, name, after, "This token is not accepted.", 403)
        to = after if _OWN.fullmatch(after) and not after.startswith("log") else ""
        response = RedirectResponse(to or "./", 303)
        self.gate.finish(request, caller, response)
        return response

    async def _login_form(
        self, request: Request, caller: Caller, name: str, after: str, error: str, status: int
    ) -> Response:
        values = {"name": name, "after": after, "error": error}
        response = await self._rendered(caller, "login.html", values, status)
        self.gate.finish(request, caller, response)
        return response

    async def _logout(self, request: Request) -> Response:
        caller = await self.gate.enter_with_form(request)
        self.gate.log_out(caller)
        response = RedirectResponse("login", 303)
        self.gate.finish(request, caller, response)
        return response

    # --- files and errors ------------------------------------------------------------------------------------------

    async def _static(self, request: Request) -> Response:
        name = request.path_params["file"]
        if name not in STATIC:
            raise HTTPException(404)
        body = files("mercury.console").joinpath("static", name).read_bytes()
        return Response(body, media_type=STATIC[name], headers={"cache-control": "public, max-age=31536000, immutable"})

    async def _http_error(self, request: Request, error: Exception) -> Response:
        return await self._problem_page(request, problem_of(error))


def _read_page(request: Request, visit: Visit) -> tuple[str, ...]:
    """What a reading of a page depends on."""
    return (visit.page, request.url.query, visit.user.role.value)
