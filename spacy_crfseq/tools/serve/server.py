"""The addresses of the server: those of annotation tools, and plain JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ...errors import CrfError
from . import inception, label_studio
from .service import Service

if TYPE_CHECKING:
    from starlette.types import ASGIApp

LOCAL = ["127.0.0.1", "localhost", "host.docker.internal", "testserver"]


def make_app(service: Service, host: str = "127.0.0.1") -> ASGIApp:
    """Return the application; one on this machine only refuses other names, under which web pages may lead here."""

    def answers(work: Callable[[dict[str, Any]], Any], status: int = 200) -> Callable[..., Any]:
        async def answer(request: Request) -> Response:
            try:
                if request.headers.get("content-type", "").partition(";")[0] != "application/json":
                    raise CrfError("Send JSON (Content-Type: application/json).")
                body = json.loads(await request.body())
                if not isinstance(body, dict):
                    raise CrfError("The request is no JSON object.")
                done = await run_in_threadpool(work, body)
            except KeyError as error:
                return JSONResponse({"error": f"The request lacks {error}."}, 400)
            except (ValueError, TypeError, AttributeError, RecursionError) as error:
                return JSONResponse({"error": str(error)}, 400)
            return Response(status_code=204 if done else 429) if isinstance(done, bool) else JSONResponse(done, status)

        return answer

    def predict(body: dict[str, Any]) -> Any:
        return inception.predict(service, body) if "document" in body else label_studio.predict(service, body)

    def annotate(body: dict[str, Any]) -> Any:
        texts = [body["text"]] if "text" in body else body["texts"]
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise CrfError('"text" must be a string, "texts" a list of strings.')
        found = [[span._asdict() for span in spans] for spans in service.annotate(texts)]
        return {"spans": found[0]} if "text" in body else {"spans": found}

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
