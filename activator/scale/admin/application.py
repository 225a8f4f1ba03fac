"""Serves health, metrics, the API and the page of the scaler; all are read-only."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from activator.admin import assets
from activator.admin.headers import SecurityHeaders
from activator.admin.hosts import OwnHosts
from activator.admin.problems import on_http_exception, problem
from activator.scale.admin import page, selection, state_views, views
from activator.scale.admin.selection import Query
from activator.scale.reports.load import Name

#: https://prometheus.io/docs/instrumenting/exposition_formats/
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
JSON_TYPE: Final = "application/json"

_INDEX: Final = """activator scale, pod {pod}

/                                     the page, for browsers
/healthz                              200 while this process works
/readyz                               200 on the leader, 503 on the others
/api/v1/services                      all Services that opt in; ?namespace=NAMESPACE
/api/v1/services/NAMESPACE/NAME       one Service
/api/v1/scaler                        this scaler: leader, activators, watches, broken objects
/metrics                              Prometheus' text
"""


class Scaler(Protocol):
    """What the admin port shows."""

    def readiness(self) -> str:
        """Return why this process does not decide; empty if it does."""

    def leader(self) -> views.LeaderView:
        """Return the leader."""

    def state(self) -> state_views.ScalerView:
        """Return the leader, the activators, the watches and the unusable objects."""

    def services(self, query: Query) -> views.ServicesView:
        """Return the Services that a query wants."""

    def service(self, name: Name) -> views.ServiceView | None:
        """Return one Service; None if this process does not know it, or does not lead."""

    def metrics(self) -> bytes:
        """Return Prometheus' text."""


def create_app(scaler: Scaler, hosts: Collection[str]) -> Starlette:
    """Return the application of the admin port.

    Arguments:
        hosts: names that requests may name, in addition to localhost and any address.
    """

    files = page.files()

    async def index(request: Request) -> Response:
        if "text/html" in request.headers.get("accept", ""):  # a browser
            return assets.answer(request, files[page.INDEX])
        text = _INDEX.format(pod=scaler.leader().pod)
        return PlainTextResponse(text, headers={"Vary": "Accept"})

    async def file(request: Request) -> Response:
        if (found := files.get(request.path_params["path"])) is None:
            raise HTTPException(404)
        return assets.answer(request, found)

    async def state(request: Request) -> Response:
        return Response(views.encode(scaler.state()), media_type=JSON_TYPE)

    async def healthz(request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(request: Request) -> Response:
        reason = scaler.readiness()
        return PlainTextResponse(f"{reason or 'leader'}\n", 503 if reason else 200)

    async def services(request: Request) -> Response:
        try:
            query = selection.parse(request.query_params)
        except ValueError as error:
            return problem(400, str(error))
        return Response(views.encode(scaler.services(query)), media_type=JSON_TYPE)

    async def service(request: Request) -> Response:
        name = Name(request.path_params["namespace"], request.path_params["name"])
        found = scaler.service(name)
        leader = scaler.leader()
        if found is not None:
            return Response(views.encode(found), media_type=JSON_TYPE)
        if not leader.leads:
            holder = leader.holder or "not known"
            return problem(503, f"This scaler does not lead. The leader is {holder}.")
        return problem(404, f"No Service {name.namespace}/{name.name} opts in.")

    return Starlette(
        routes=[
            Route("/", index),
            Route("/dashboard/{path:path}", file),
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/api/v1/scaler", state),
            Route("/api/v1/services", services),
            Route("/api/v1/services/{namespace}/{name}", service),
            _metrics_route(scaler),
        ],
        middleware=[Middleware(SecurityHeaders), Middleware(OwnHosts, names=hosts)],
        exception_handlers={HTTPException: on_http_exception},
    )


def create_metrics_app(scaler: Scaler) -> Starlette:
    """Return the application of the metrics port."""
    return Starlette(
        routes=[_metrics_route(scaler)],
        middleware=[Middleware(SecurityHeaders)],
        exception_handlers={HTTPException: on_http_exception},
    )


def _metrics_route(scaler: Scaler) -> Route:
    async def metrics(request: Request) -> Response:
        return Response(scaler.metrics(), media_type=METRICS_TYPE)

    return Route("/metrics", metrics)
