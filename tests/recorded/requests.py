"""The kinds of requests that the programs send: without names and values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl

from activator.lab.control_plane.api import (
    BUILT_IN,
    REVISIONS,
    SCALED_OBJECTS,
    ApiKind,
    ApiKinds,
)
from activator.lab.control_plane.store import PlaneWatch
from activator.lab.http1 import HttpRequest, HttpResponse
from tests.control_plane.client import path_of
from tests.control_plane.strict import StrictControlPlane
from tests.recorded.recording import load

Object = dict[str, Any]

LIST: Final = Path(__file__).parent / "requests.txt"
#: The kinds of the KEDA HTTP add-on.
HTTP_ADD_ON: Final = tuple(
    ApiKind("http.keda.sh", version, f"{kind.lower()}s", kind, is_custom=True)
    for version, kind in (("v1alpha1", "HTTPScaledObject"), ("v1beta1", "InterceptorRoute"))
)
_CATALOGUE: Final = ApiKinds((*BUILT_IN, SCALED_OBJECTS, REVISIONS, *HTTP_ADD_ON))
#: Parameters whose values vary.
_NUMBERS: Final = ("limit", "timeoutSeconds", "continue", "resourceVersion")


class Recorder(StrictControlPlane):
    """A control plane that keeps the requests which come over its sockets.

    Attributes:
        requests: all so far; tests send theirs with the agent ``test``.
    """

    def __init__(self, resources: Iterable[ApiKind], *, allows_loopback: bool = False) -> None:
        super().__init__(resources, allows_loopback=allows_loopback)
        self.requests: list[HttpRequest] = []

    def handle(self, request: HttpRequest) -> HttpResponse | PlaneWatch:
        """See ControlPlane."""
        if request.header("user-agent") != "test":
            self.requests.append(request)
        return super().handle(request)


def problems(program: str, requests: Iterable[HttpRequest]) -> list[str]:
    """Compare the kinds of a program's requests with its lines of the list, and the recording."""
    recorded = {
        kind_of(
            each["method"],
            each["path"],
            each.get("query", {}),
            each.get("content_type", ""),
            each.get("body"),
        )
        for each in load()
    }
    listed = set(LIST.read_text().splitlines())
    found = set()
    for each in requests:
        path, _, query = each.target.partition("?")
        decoded = dict(parse_qsl(query, keep_blank_values=True))
        body = json.loads(each.body) if each.body else None
        found.add(kind_of(each.method, path, decoded, each.header("content-type"), body))
    own = {each.partition(": ")[2] for each in listed if each.startswith(f"{program}: ")}
    return [
        *(f"not in {LIST.name}: {program}: {each}" for each in sorted(found - own)),
        *(f"no longer sent: {program}: {each}" for each in sorted(own - found)),
        *(f"not in conversation.py: {each}" for each in sorted(found - recorded)),
    ]


def kind_of(method: str, path: str, query: Object, content_type: str, body: Any) -> str:
    """Return method, path, parameters, media type and fields, with ``*`` for what varies."""
    if place := _CATALOGUE.find(path):
        namespace, name = "*" if place.namespace else "", "*" if place.name else ""
        path = path_of(place.resource, namespace, name, place.subresource)
    elif path.startswith("/apis/"):
        path = "/apis/*/*"
    values = {key: _value(key, value) for key, value in query.items()}
    if "limit" in values and values.get("resourceVersion") != "0":
        path = "any list"  # the later lists differ only by their version
        values.pop("labelSelector", None)
        values.pop("fieldSelector", None)
    parameters = "&".join(f"{key}={value}" for key, value in sorted(values.items()))
    parts = (method, path, parameters, content_type if body is not None else "", *_fields(body))
    return " ".join(filter(None, parts))


def _value(key: str, value: str) -> str:
    if key == "fieldSelector":
        return value.partition("=")[0] + "=*"
    return "*" if key in _NUMBERS and value not in ("", "0") else value


def _fields(body: Any) -> Iterator[str]:
    """Yield the fields of a body, two deep: labels are not named."""
    for key, value in sorted(body.items()) if isinstance(body, dict) else ():
        if isinstance(value, dict) and value:
            yield from (f"{key}.{inner}" for inner in sorted(value))
        else:
            yield key
