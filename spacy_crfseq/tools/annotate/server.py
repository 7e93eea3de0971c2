"""The server of the page: on this machine only, for those who have the address with its token.

Requests carry the token in their path.  Host and Origin must be those of this server, which keeps other pages of the
browser out, also by names that lead here (DNS rebinding).
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route

from ...errors import CrfError, DataError
from .exports import FORMATS, exported
from .journal import Pins
from .project import ConflictError, Item, Project
from .values import object_of, string

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

PAGE = Path(__file__).parent / "page"
FILES = {"": "index.html", "page.js": "page.js", "text.js": "text.js", "style.css": "style.css"}
HOSTS = ("127.0.0.1", "localhost")
LARGEST = 32 << 20
"""Bytes of a request, at most: each of 100,000 tokens may have a label, which is sent thrice."""
REQUIRED = {"next": ("tab",), "decode": ("tab", "key"), "accept": ("tab", "key", "id"), "skip": ("tab", "key", "id"),
            "undo": ("tab", "id"), "state": (), "label": ("name",)}  # fmt: skip
"""The requests of the page, and the strings that they must have."""
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """Refuses requests without the token or with another Host or Origin, and adds headers to all answers."""

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app, self._token, self._hosts = app, token, [f"{host}:{port}" for host in HOSTS]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        origin, host = headers.get("origin"), headers.get("host")
        site = headers.get("sec-fetch-site", "same-origin")
        app, given = self._app, scope["path"].split("/")[1] if "/" in scope["path"] else ""
        if not secrets.compare_digest(given.encode(), self._token.encode()):
            app = PlainTextResponse("Open the address that 'crfseq annotate' has printed; it holds a token.\n", 403)
        if host not in self._hosts or origin not in (None, f"http://{host}") or site not in ("same-origin", "none"):
            app = PlainTextResponse("This address is for the page of 'crfseq annotate' only.\n", 403)

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                more = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        await app(scope, receive, send_with_headers)


def shown(project: Project, item: Item | None) -> dict[str, Any]:
    """Return a text as the page takes it."""
    if item is None:
        return {"key": None}
    pins = item.decision.pins if item.decision else Pins()
    decoding, texts = project.decode(item, pins)
    return {
        "key": item.key,
        "words": [token.text for token in item.doc],
        "spaces": [bool(token.whitespace_) for token in item.doc],
        "held_out": item.held_out,
        "note": project.note(item),
        "found_by": project.found_by(item),
        "pins": pins.as_json(),
        "spans": decoding.spans,
        "offers": decoding.offers,
        "model": texts,
        "again": item.decision is not None,
    }


CHANGES: dict[str, Callable[[Project, dict[str, Any]], object]] = {
    "accept": lambda project, body: project.accept(body["tab"], body),
    "skip": lambda project, body: project.skip(body["tab"], body["key"], body["id"]),
    "undo": lambda project, body: project.undo(body["tab"], body["id"]),
    "label": lambda project, body: project.add_labels([body["name"]]),
}


def answer(project: Project, what: str, body: dict[str, Any]) -> dict[str, Any]:
    """Act on a request of the page, and return its next state."""
    if what == "decode":
        item = project.item(body["tab"], body["key"], body.get("held_out") is True)
        decoding, texts = project.decode(item, Pins.of(body["pins"], len(item.doc)))
        return {"spans": decoding.spans, "offers": decoding.offers, "model": texts}
    done = CHANGES[what](project, body) if what in CHANGES else None
    if what in ("state", "label") or (what == "undo" and done is None):
        return {"text": None, "state": project.summary()}
    shows = project.next(body["tab"], body.get("wanted", ""), body.get("held_out") is True and what == "next")
    return {"text": shown(project, shows), "state": project.summary()}


def make_app(project: Project, token: str, port: int) -> ASGIApp:
    """Return the application that shows a project under a token."""

    async def page(request: Request) -> Response:
        file = FILES.get(request.path_params.get("file", ""))
        return FileResponse(PAGE / file) if file else PlainTextResponse("Not found.\n", 404)

    async def work(request: Request) -> Response:
        what = request.path_params["work"]
        if what not in REQUIRED:
            return JSONResponse({"error": "There is no such request."}, 404)
        try:
            body = await read_json(request)
        except ClientDisconnect:
            return Response()  # nobody reads it
        for name in (*REQUIRED[what], "wanted"):
            if not string(body.get(name, ""), name) and name != "wanted":
                raise DataError(f"The request lacks {name!r}.")
        return JSONResponse(await run_in_threadpool(answer, project, what, body))

    async def download(request: Request) -> Response:
        name = request.path_params["format"]
        if name not in FORMATS:
            return JSONResponse({"error": f"There is no format {name!r}."}, 404)
        data = await run_in_threadpool(exported, project.learner, list(project.state.decisions.values()), name)
        disposition = f'attachment; filename="annotations{FORMATS[name]}"'
        return Response(data, 200, {"Content-Disposition": disposition}, "application/octet-stream")

    routes = [
        Route("/api/{work}", work, methods=["POST"]),
        Route("/export/{format}", download),
        Route("/{file:path}", page),
    ]
    handlers: Any = {CrfError: failed, OSError: failed, Exception: failed}
    app = Starlette(routes=[Mount("/{token}", routes=routes)], exception_handlers=handlers)
    return Guard(app, token, port)


async def read_json(request: Request) -> dict[str, Any]:
    """Return the object that a request carries.  RAISES CrfError: If it carries none."""
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise CrfError("Send JSON (Content-Type: application/json).")
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > LARGEST:
            raise DataError(f"The request has more than {LARGEST:,} bytes.")
    try:
        return dict(object_of(json.loads(data), "the request"))
    except DataError:
        raise
    except (ValueError, RecursionError):
        raise DataError("The request is no JSON.") from None


def failed(request: Request, error: Exception) -> Response:
    """Return an answer that says what went wrong; a fault of the program is in the terminal, too."""
    if isinstance(error, OSError):
        text = f"Nothing was saved: {error.strerror or error}. Make room, then accept the text again; it is still here."
        return JSONResponse({"error": text}, 507)
    if isinstance(error, CrfError):
        return JSONResponse({"error": str(error)}, 409 if isinstance(error, ConflictError) else 400)
    text = f"Nothing was saved: the program has failed ({error!r}). Please report this; the terminal has the details."
    return JSONResponse({"error": text}, 500)
