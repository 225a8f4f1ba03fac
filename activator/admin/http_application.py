"""Builds the HTTP application of an admin or metrics port: for the activator and for the scaler.

All of them have the same headers and errors, and no redirect. Must not know the routes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from activator.admin import assets
from activator.admin.assets import Asset
from activator.admin.headers import SecurityHeaders
from activator.admin.problems import HANDLERS
from activator.pages import pages

#: https://prometheus.io/docs/instrumenting/exposition_formats/
METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
JSON_TYPE: Final = "application/json"


def application(
    routes: Sequence[Route], lifespan: Any = None, middleware: Iterable[Middleware] = ()
) -> Starlette:
    """Return the application.

    Arguments:
        routes: all paths that have a response.
        lifespan: as for Starlette.
        middleware: in addition to the headers of each response.
    """
    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        middleware=[Middleware(SecurityHeaders), *middleware],
        exception_handlers=HANDLERS,
    )
    # A redirect of a path with a further slash would repeat the client's Host field.
    app.router.redirect_slashes = False
    return app


def page_routes(files: Mapping[str, Asset], page: str, text: Callable[[], str]) -> list[Route]:
    """Return the routes of a page for browsers: ``/``, and its files below ``/dashboard/``.

    The pages about reasons and alerts are plain text, for browsers and other clients.

    Arguments:
        files: the files by path.
        page: path of the page itself.
        text: returns the response of ``/`` to other clients.
    """

    async def index(request: Request) -> Response:
        if "text/html" in request.headers.get("accept", ""):  # a browser
            return assets.answer(request, files[page])
        return PlainTextResponse(text(), headers={"Vary": "Accept"})

    async def file(request: Request) -> Response:
        asset = files.get(request.path_params["path"])
        if asset is None:
            raise HTTPException(404)
        return assets.answer(request, asset)

    async def text_page(request: Request) -> Response:
        found = pages().get(request.path_params["name"].removesuffix(".md"))
        if found is None:
            raise HTTPException(404)
        return PlainTextResponse(found)

    page_files = Route("/dashboard/{path:path}", file)
    return [Route("/", index), page_files, Route("/reasons/{name}", text_page)]
