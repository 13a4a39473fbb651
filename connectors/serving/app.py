"""The service as an application: routes, the checks of requests, and their description as OpenAPI."""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from connectors.contract.errors import Failure
from connectors.serving.service import Answer, LearningService, RequestError, Service
from streamk import __version__

log = logging.getLogger(__name__)
_OPEN = ("/healthz", "/ready", "/metrics")  # without a token
_LONGEST_ID = 512
T = TypeVar("T", bound=msgspec.Struct)


class EventsBody(msgspec.Struct, forbid_unknown_fields=True):
    """Events, objects of fields and values; with ids, they wait for labels, or are learned once."""

    events: list[msgspec.Raw]
    ids: list[str] | None = None


class LabelsBody(msgspec.Struct, forbid_unknown_fields=True):
    """Labels of events that were predicted under these ids."""

    ids: list[str]
    targets: list[str | int | float | bool]


ROUTES = {  # path: the body, whether it teaches, and what it does
    "/v1/predict": (EventsBody, False, "Predict events. With ids, they wait for their labels"),
    "/v1/learn": (EventsBody, True, "Learn events that have their targets; with ids, each once"),
    "/v1/labels": (LabelsBody, True, "Learn the labels of events that were predicted with ids, each once"),
}
EXAMPLES: dict[str, object] = {
    "/v1/predict": {"events": [{"amount": 12.5, "country": "NZ"}], "ids": ["order 1"]},
    "/v1/learn": {"events": [{"amount": 12.5, "country": "NZ", "fraud": False}]},
    "/v1/labels": {"ids": ["order 1"], "targets": [False]},
}


def answer(content: object, status: int = 200) -> Response:
    """Return a response of JSON."""
    return Response(msgspec.json.encode(content), status, media_type="application/json")


class RequestLimits:
    """Middleware: the token, the size of a body, and the time that it takes to come.

    Parameters
    ----------
    app
        What it protects.
    token
        That requests must have; None if they need none.
    bytes_, seconds
        Of a body, at most.
    """

    def __init__(self, app: ASGIApp, token: str | None, bytes_: int, seconds: float) -> None:
        self._app, self._token, self._bytes, self._seconds = app, token, bytes_, seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer what is refused, and pass on all else with its body read."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        refusal = self._refusal(request)
        if refusal is None:
            try:
                body = await asyncio.wait_for(self._body(request), self._seconds)
            except TimeoutError:
                refusal = answer({"error": f"the body did not come within {self._seconds:g} seconds"}, 408)
            except ClientDisconnect:
                return
            else:
                if len(body) > self._bytes:
                    refusal = answer({"error": f"the body has more than {self._bytes:,} bytes"}, 413)
        if refusal is not None:
            await refusal(scope, receive, send)
            return

        async def read() -> dict[str, object]:
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, read, send)

    def _refusal(self, request: Request) -> Response | None:
        if self._token is None or request.url.path in _OPEN:
            return None
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and hmac.compare_digest(token.encode(), self._token.encode()):
            return None
        refused = answer({"error": "send the header Authorization: Bearer TOKEN"}, 401)
        refused.headers["www-authenticate"] = "Bearer"
        return refused

    async def _body(self, request: Request) -> bytes:
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > self._bytes:
                break
        return body


def application(
    service: Service, token: str | None = None, most: int = 1 << 20, seconds: float = 10.0
) -> Starlette:
    """Return the application of a service; ``most`` bytes and ``seconds`` bound the body of a request."""
    routes = [
        Route("/", lambda request: HTMLResponse(page(service)), methods=["GET"]),
        Route("/openapi.json", lambda request: answer(description(service)), methods=["GET"]),
        Route("/v1/model", lambda request: answer(service.about()), methods=["GET"]),
        *(Route(path, _post(service, path), methods=["POST"]) for path in _paths(service)),
        *(Route(path, _telemetry(service, path), methods=["GET"]) for path in _OPEN),
        Route("/report", _report(service), methods=["GET"]),
    ]
    limits = Middleware(RequestLimits, token=token, bytes_=most, seconds=seconds)
    return Starlette(routes=routes, middleware=[limits])


def _paths(service: Service) -> list[str]:
    return [path for path, (_, teaches, _) in ROUTES.items() if service.learns or not teaches]


def _telemetry(service: Service, path: str) -> Callable[[Request], Response]:
    def respond(request: Request) -> Response:
        if service.using is None and path == "/ready":
            return Response("no model is published yet\n", 503)
        code, kind, body = service.telemetry.answer(path)
        return Response(body, code, media_type=kind)

    return respond


def _report(service: Service) -> Callable[[Request], Awaitable[Response]]:
    async def respond(request: Request) -> Response:
        return Response(service.telemetry.page(service.summary()), media_type="text/html")

    return respond


def _post(service: Service, path: str) -> Callable[[Request], Awaitable[Response]]:
    async def respond(request: Request) -> Response:
        try:
            return answer(await _answered(service, path, await request.body()))
        except (RequestError, msgspec.DecodeError, RecursionError, UnicodeError) as error:
            if isinstance(error, RequestError):
                return answer({"error": str(error)}, 422)
            example = msgspec.json.encode(EXAMPLES[path]).decode()
            return answer({"error": f"{error}; a body is like {example}"}, 400)
        except Failure as failure:  # a full disk, as a rule
            log.error("%s", failure)
            return answer({"error": "the log of requests cannot be written; nothing was learned"}, 503)

    return respond


async def _answered(service: Service, path: str, body: bytes) -> Answer:
    """Return the answer to a request, raising RequestError or DecodeError for one that is wrong."""
    if path == "/v1/labels":
        assert isinstance(service, LearningService)
        labels = _read(body, LabelsBody)
        _check_ids(labels.ids, len(labels.targets), "targets")
        return {"labels": await service.label(labels.ids, labels.targets)}
    wanted = _read(body, EventsBody)
    events = [bytes(event) for event in wanted.events]
    if wanted.ids is not None:
        _check_ids(wanted.ids, len(events), "events")
    if path == "/v1/learn":
        assert isinstance(service, LearningService)
        answers = await service.learn(wanted.ids, events)
    elif wanted.ids is None:
        answers = service.predict(events)
    elif isinstance(service, LearningService):
        answers = await service.ask(wanted.ids, events)
    else:
        answers = [{"id": key, **each} for key, each in zip(wanted.ids, service.predict(events), strict=True)]
    using = service.using
    named: Answer = {} if using is None else using.origin._asdict()
    return {**named, "predictions" if path == "/v1/predict" else "events": answers}


def _read(body: bytes, kind: type[T]) -> T:
    return msgspec.json.decode(body, type=kind)


def _check_ids(ids: Sequence[str], count: int, what: str) -> None:
    if len(ids) != count:
        raise RequestError(f"there are {len(ids)} ids and {count} {what}")
    for k, key in enumerate(ids):
        if not key or len(key) > _LONGEST_ID:
            raise RequestError(f"ids[{k}]: an id has 1 to {_LONGEST_ID} characters")


def description(service: Service) -> dict[str, object]:
    """Return the description of the service as OpenAPI."""
    kinds = [EventsBody, LabelsBody]
    _, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    responses = {
        "200": {"description": "An answer for each event or label, in their order"},
        "400": {"description": "The body is not JSON of this form"},
        "401": {"description": "The token is missing or wrong"},
        "413": {"description": "The body is too large"},
        "422": {"description": "An event or a label cannot be used; nothing was learned"},
    }
    paths: dict[str, object] = {}
    for path in _paths(service):
        kind, _, summary = ROUTES[path]
        schema = {"$ref": f"#/components/schemas/{kind.__name__}"}
        content = {"application/json": {"schema": schema, "example": EXAMPLES[path]}}
        body = {"required": True, "content": content}
        paths[path] = {"post": {"summary": summary, "requestBody": body, "responses": responses}}
    for path, summary in {
        "/v1/model": "The model: version, fields, relevance, accuracy",
        "/report": "A page: metrics over the last windows, alarms, fields",
        "/metrics": "Metrics for Prometheus",
        "/ready": "Whether requests can be answered",
    }.items():
        paths[path] = {"get": {"summary": summary, "responses": {"200": {"description": "ok"}}}}
    bearer = {"bearer": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "streamk", "version": __version__},
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": bearer},
        "security": [{"bearer": []}, {}],
    }


def page(service: Service) -> str:
    """Return a page that lists the paths, with a request to try for each."""
    rows = []
    for path in _paths(service):
        body = msgspec.json.encode(EXAMPLES[path]).decode()
        rows.append(
            f"<h2>POST {path}</h2><p>{ROUTES[path][2]}.</p>"
            f"<pre>curl -d '{body}' http://localhost:8000{path}</pre>"
        )
    return (
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>streamk</title>"
        "<style>body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem}"
        "pre{background:#f4f4f4;padding:.7rem;overflow:auto}</style><h1>streamk</h1>"
        f"{''.join(rows)}<h2>GET</h2><p><a href='/v1/model'>/v1/model</a>, "
        "<a href='/metrics'>/metrics</a>, <a href='/ready'>/ready</a>, "
        "<a href='/openapi.json'>/openapi.json</a></p></html>"
    )
