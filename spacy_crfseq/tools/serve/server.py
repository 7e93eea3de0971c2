"""The addresses of the server: those of annotation tools, and plain JSON."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ...errors import CrfError
from . import inception, label_studio
from .schema import RequestPart, parsed
from .service import Service

if TYPE_CHECKING:
    from starlette.types import ASGIApp

LARGEST = 128 << 20
"""Bytes of a request, at most: documents of INCEpTION come all together."""
LOCAL = ["127.0.0.1", "localhost", "host.docker.internal", "testserver"]


class RequestTooLargeError(CrfError):
    """A request of more than `LARGEST` bytes."""


class TextRequest(RequestPart):
    """A text to annotate."""

    text: str


class TextsRequest(RequestPart):
    """Texts to annotate."""

    texts: list[str]


async def read_json(request: Request) -> dict[str, Any]:
    """Return the object that a request carries.  RAISES CrfError: If it carries none, or more than `LARGEST` bytes."""
    if request.headers.get("content-type", "").partition(";")[0] != "application/json":
        raise CrfError("Send JSON (Content-Type: application/json).")
    data, size = bytearray(), 0
    async for part in request.stream():  # to its end: clients that still send do not read an answer
        size += len(part)
        if size <= LARGEST:
            data += part
        else:
            data.clear()
    if size > LARGEST:
        raise RequestTooLargeError(f"The request has more than {LARGEST >> 20} MiB. Send fewer texts or documents.")
    try:
        body = from_json(bytes(data), allow_inf_nan=False)
    except ValueError as error:
        raise CrfError(f"The request is no JSON: {error}.") from None
    if not isinstance(body, dict):
        raise CrfError("The request is no JSON object.")
    return body


def refused(request: Request, why: str, status: int) -> Response:
    """Return an answer that says why a request is refused, and log it: annotation tools show no such answers."""
    logging.getLogger("spacy_crfseq").warning("%s refused: %s", request.url.path, why)
    return JSONResponse({"error": why}, status)


def make_app(service: Service, host: str = "127.0.0.1") -> ASGIApp:
    """Return the application; one on this machine only refuses other names, under which web pages may lead here."""

    def answers(work: Callable[[dict[str, Any]], Any], status: int = 200) -> Callable[..., Any]:
        async def answer(request: Request) -> Response:
            try:
                done = await run_in_threadpool(work, await read_json(request))
            except RequestTooLargeError as error:
                return refused(request, str(error), 413)
            except OSError as error:
                text = f"The model has learned, but was not saved: {error.strerror or error} ({error.filename})."
                return refused(request, text, 507)
            except ValueError as error:
                return refused(request, str(error), 400)
            return Response(status_code=204 if done else 429) if isinstance(done, bool) else JSONResponse(done, status)

        return answer

    def predict(body: dict[str, Any]) -> Any:
        return inception.predict(service, body) if "document" in body else label_studio.predict(service, body)

    def annotate(body: dict[str, Any]) -> Any:
        is_single = "text" in body
        texts = [parsed(TextRequest, body).text] if is_single else parsed(TextsRequest, body).texts
        spans = [[span._asdict() for span in spans] for spans in service.annotate(texts)]
        return {"spans": spans[0] if is_single else spans}

    async def health(request: Request) -> Response:
        return JSONResponse({"status": "UP", "model_class": "spacy_crfseq"})

    routes = [
        Route("/", health),
        Route("/health", health),
        Route("/annotate", answers(annotate), methods=["POST"]),
        Route("/predict", answers(predict), methods=["POST"]),
        Route("/setup", answers(lambda body: label_studio.setup(service, body)), methods=["POST"]),
        Route("/webhook", answers(lambda body: label_studio.webhook(service, body), 201), methods=["POST"]),
        Route("/train", answers(lambda body: inception.train(service, body)), methods=["POST"]),
    ]
    local = [Middleware(TrustedHostMiddleware, allowed_hosts=LOCAL)] if host in LOCAL else []
    return Starlette(routes=routes, middleware=local)
