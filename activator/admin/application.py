"""Serve health, metrics, API and dashboard as Starlette applications; all are read-only.

The application's lifespan runs discovery, probing and throttler. Must not know how these work, nor
the port. Knative's counterpart: the probe and metrics handlers of cmd/activator/main.go. The API
has none.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
from starlette.applications import Starlette
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from activator import __version__
from activator.admin import api, assets, event_feed
from activator.admin.event_feed import EventFeed
from activator.admin.history import STEP, STEPS
from activator.admin.http_application import (
    JSON_TYPE,
    METRICS_TYPE,
    OwnHosts,
    application,
    as_json,
    in_order,
    in_turns,
    json_pieces,
    stream,
)
from activator.admin.openapi import document
from activator.admin.views.activators import ActivatorView
from activator.admin.views.revisions import RevisionView
from activator.build import running
from activator.records.source_status import ObjectWarning, SourceStatus
from throttler.errors import RevisionNotFound
from throttler.model import RevisionKind
from throttler.revision import RevisionThrottler

if TYPE_CHECKING:
    from activator.runtime import Runtime


#: Each path, and the content of its response.
ENDPOINTS = (
    ("/", "the dashboard, for browsers"),
    ("/reasons/{name}", "the page of a reason or of an alert, as text; README is the list"),
    ("/healthz", "whether the process is alive"),
    ("/readyz", "whether the activator accepts traffic"),
    ("/livez", "200 while the process works, for the KEDA HTTP add-on"),
    ("/queue", "requests of each HTTPScaledObject and InterceptorRoute, for the add-on's scaler"),
    ("/metrics", "metrics for Prometheus"),
    ("/api/v1/revisions", "all revisions, with their pods and queues, as JSON"),
    ("/api/v1/revisions/{namespace}/{name}", "one revision"),
    ("/api/v1/history", "the last ten minutes of the revisions that had requests"),
    ("/api/v1/activator", "this activator: whether it is ready, and the age of its state"),
    ("/api/v1/events", "events of revisions as they occur (server-sent events)"),
    ("/api/v1/openapi.json", "this API as an OpenAPI document"),
)

_WIDTH = max(len(path) for path, _ in ENDPOINTS)


def index(pod_name: str) -> str:
    """Return the list."""
    lines = (f"{path:{_WIDTH}}  {meaning}" for path, meaning in ENDPOINTS)
    return "\n".join(
        (
            f"activator {__version__} on {pod_name}",
            "",
            *lines,
            "",
            "The same in a terminal: activator status",
            "",
        )
    )


class _Handlers:
    """The handlers of all paths."""

    def __init__(
        self,
        runtime: Runtime,
        feed: EventFeed | None = None,
        scaler_page: str = "",
        admission: str = "",
        port_warnings: Callable[[], Iterable[ObjectWarning]] = tuple,
    ) -> None:
        self._runtime = runtime
        self._port_warnings = port_warnings
        self._scaler_page = scaler_page
        self._admission = admission
        self._feed = feed or EventFeed(runtime.driver.events)

    async def healthz(self, request: Request) -> Response:
        return PlainTextResponse("ok")

    async def readyz(self, request: Request) -> Response:
        reason = self._runtime.ready()
        lines = [reason or "ok"]
        if "verbose" in request.query_params:
            lines += self._runtime.certificate_warnings()
        return PlainTextResponse("\n".join(lines), 503 if reason else 200)

    async def readyz_of_add_on(self, request: Request) -> Response:
        if self._runtime.ready():
            return PlainTextResponse("Service Unavailable", 503)
        return PlainTextResponse("OK")

    async def livez(self, request: Request) -> Response:
        return Response()

    async def queue(self, request: Request) -> Response:
        pieces = in_turns(self._runtime.reporter.queue.pieces())
        return Response(b"".join([piece async for piece in pieces]), media_type=JSON_TYPE)

    async def metrics(self, request: Request) -> Response:
        return stream(request, self._runtime.metrics(), METRICS_TYPE)

    async def revisions(self, request: Request) -> Response:
        throttlers = self._wanted(request.query_params)
        rest = {"activator": self._activator()}
        return stream(request, json_pieces("revisions", self._views(throttlers), rest), JSON_TYPE)

    async def revision(self, request: Request) -> Response:
        throttler = self._one(request.path_params, _kind(request.query_params))
        view = api.detail_view(self._runtime.driver, throttler, self._source())
        return as_json(view)

    async def history(self, request: Request) -> Response:
        history, query = self._runtime.history, request.query_params
        window = history.now(_steps(query.get("steps", str(STEPS))))
        rest: dict[str, Any] = {
            "activator": history.sums(window),
            "stepSeconds": STEP,
            "steps": STEPS,
            "time": history.end(window),
        }
        revisions = history.revisions(window, _named(query))
        return stream(request, json_pieces("revisions", revisions, rest), JSON_TYPE)

    async def activator(self, request: Request) -> Response:
        return as_json(self._activator())

    async def openapi(self, request: Request) -> Response:
        return as_json(document(__version__))

    async def events(self, request: Request) -> Response:
        hello = {"podName": self._runtime.settings.pod_name, "version": __version__}
        return event_feed.stream_events(request, self._feed, hello)

    def _wanted(self, query: QueryParams) -> list[RevisionThrottler]:
        """Return a list: revisions may come and go while the response is written."""
        throttlers = list(self._runtime.driver.throttler)
        if wanted := _named(query):
            throttlers = [one for one in throttlers if one.revision.id[:2] in wanted]
        if (namespace := query.get("namespace")) is not None:
            throttlers = [one for one in throttlers if one.revision.id.namespace == namespace]
        if (kind := _kind(query)) is not None:
            throttlers = [one for one in throttlers if one.revision.id.kind is kind]
        return throttlers

    def _one(self, wanted: Mapping[str, str], kind: RevisionKind | None) -> RevisionThrottler:
        """Return a revision; without a kind the first kind that has the name.

        Raises:
            RevisionNotFound: there is no such revision.
        """
        find, namespace, name = self._runtime.driver.throttler.find_any, *wanted.values()
        if kind is not None:
            return find(namespace, name, kind)
        for each in RevisionKind:
            with suppress(RevisionNotFound):
                return find(namespace, name, each)
        raise RevisionNotFound(name, namespace)

    def _views(self, throttlers: list[RevisionThrottler]) -> Iterator[RevisionView | None]:
        # Strings compare several times as fast as tuples; no name has a NUL.
        for one in in_order(throttlers, lambda one: "\0".join(one.revision.id)):
            yield None if one is None else api.revision_view(self._runtime.driver, one)

    def _source(self) -> SourceStatus:
        source = self._runtime.source_status()
        return replace(source, warnings=(*source.warnings, *self._port_warnings()))

    def _activator(self) -> ActivatorView:
        runtime = self._runtime
        reason, source = runtime.ready(), self._source()
        return {
            "podName": runtime.settings.pod_name,
            "version": __version__,
            "build": running().value,
            "uptimeSeconds": round(runtime.driver.clock() - runtime.started_at, 3),
            "ready": not reason,
            "notReadyReason": reason or None,
            "manifestErrors": dict(source.errors),
            "objectWarnings": api.warnings_view(source),
            "certificateWarnings": list(runtime.certificate_warnings()),
            "watches": api.watches_view(source),
            "manifests": api.manifests_view(source),
            "autoscaler": api.autoscaler_view(runtime.links.autoscaler),
            "scaler": api.autoscaler_view(runtime.links.scaler),
            "scalerPage": self._scaler_page or None,
            "admission": self._admission or None,
        }


def _named(query: QueryParams) -> frozenset[tuple[str, str]]:
    """Return the namespaces and names of ``?revision=NAMESPACE/NAME``.

    Raises:
        HTTPException: a value has another form.
    """
    named = query.getlist("revision")
    if not all(map(event_feed.names_revision, named)):
        raise HTTPException(400, event_feed.NAMED_AS)
    parts = (each.partition("/") for each in named)
    return frozenset((namespace, name) for namespace, _, name in parts)


def _kind(query: QueryParams) -> RevisionKind | None:
    """Return ``?kind=``; None if the query has none.

    Raises:
        HTTPException: there is no such kind.
    """
    kind = query.get("kind")
    if kind is None:
        return None
    try:
        return RevisionKind(kind)
    except ValueError:
        known = " or ".join(RevisionKind)
        raise HTTPException(400, f"kind must be {known}, as in ?kind=service.") from None


def _steps(wanted: str) -> int:
    """Return ``?steps=``; the history has at most ``STEPS``."""
    if not re.fullmatch("[0-9]{1,9}", wanted) or int(wanted) == 0:
        raise HTTPException(400, "steps must be a number from 1, as in ?steps=12.")
    return int(wanted)


def create_app(
    runtime: Runtime,
    hosts: Collection[str] = (),
    feed: EventFeed | None = None,
    scaler_page: str = "",
    admission: str = "",
    *,
    port_warnings: Callable[[], Iterable[ObjectWarning]] = tuple,
    add_on: bool = False,
) -> Starlette:
    """Return the application for the admin port; its lifespan runs ``runtime``.

    Arguments:
        hosts: further host names that it accepts, in lower case. It always accepts
            ``localhost`` and addresses.
        feed: the events; the caller closes it before it stops the server. None for a new feed.
        scaler_page: address of the scaler's page for browsers; empty for no link.
        admission: address of the admission port; empty without one.
        port_warnings: returns a warning for each port of a Service that cannot be bound.
        add_on: whether ``/readyz`` responds as the KEDA HTTP add-on.
    """
    handlers = _Handlers(runtime, feed, scaler_page, admission, port_warnings)
    text = partial(index, runtime.settings.pod_name)
    routes = [
        *assets.page_routes(assets.dashboard(), assets.INDEX, text),
        Route("/healthz", handlers.healthz),
        Route("/readyz", handlers.readyz_of_add_on if add_on else handlers.readyz),
        Route("/livez", handlers.livez),
        Route("/queue", handlers.queue),
        Route("/metrics", handlers.metrics),
        Route("/api/v1/revisions", handlers.revisions),
        Route("/api/v1/revisions/{namespace}/{name}", handlers.revision),
        Route("/api/v1/history", handlers.history),
        Route("/api/v1/activator", handlers.activator),
        Route("/api/v1/openapi.json", handlers.openapi),
        Route("/api/v1/events", handlers.events),
    ]

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        # The first group loads anyio's backend, which takes 15 ms. Load it now, so that traffic
        # does not wait when Starlette streams its first response.
        async with anyio.create_task_group():
            pass
        async with runtime.lifespan():
            yield

    return application(routes, lifespan, [Middleware(OwnHosts, names=hosts)])


def create_metrics_app(runtime: Runtime) -> Starlette:
    """Return the application for the metrics port.

    Other machines may reach this port, so it has no API. It has no lifespan either.
    """
    handlers = _Handlers(runtime)
    return application([Route("/healthz", handlers.healthz), Route("/metrics", handlers.metrics)])
