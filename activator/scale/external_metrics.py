"""Publishes decisions to HPAs by the API group ``external.metrics.k8s.io``; off by default.

The API server's aggregator reads it. While this process does not lead it responds with 503, so that
an HPA keeps its hands off the workload. Sources: k8s.io/metrics pkg/apis/external_metrics v1beta1;
the discovery objects are meta/v1's APIGroupList, APIGroup and APIResourceList, as an API server
sends them. For selectors: "Labels and Selectors" in the Kubernetes documentation, and pkg/labels of
k8s.io/apimachinery.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from activator.scale import http_server
from activator.scale.board import Board, Published
from activator.scale.part import PartContext
from activator.scale.reports.load import ServiceName
from activator.scale.settings import ScaleSettings
from activator.tls.certificates import CertificateError, FileTls, TlsFileError, tls_files
from activator.tls.certificates import context as tls_context

GROUP: Final = "external.metrics.k8s.io"
GROUP_VERSION: Final = f"{GROUP}/v1beta1"
#: Requests in flight and queued of one Service; the label ``service`` names it.
METRIC: Final = "activator_requests"
#: The label that names the Service, in the namespace of the HPA.
SERVICE: Final = "service"

Object = Mapping[str, Any]

_VERSION: Final = {"groupVersion": GROUP_VERSION, "version": "v1beta1"}
_GROUP: Final = {"name": GROUP, "versions": [_VERSION], "preferredVersion": _VERSION}
_LIST: Final = "ExternalMetricValueList"
_INFO: Final = {"title": "activator scale", "version": "v1beta1"}
#: What all errors have in common.
_FAILURE: Final = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}

#: The constant objects, by path. ``/openapi/v2`` has no path, since only HPAs read this group.
#: Without the page, kube-apiserver logs an error each minute or so (kube-aggregator's
#: pkg/controllers/openapi).
DISCOVERY: Final[Mapping[str, Object]] = {
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_GROUP]},
    f"/apis/{GROUP}": {"kind": "APIGroup", "apiVersion": "v1", **_GROUP},
    f"/apis/{GROUP_VERSION}": {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": GROUP_VERSION,
        "resources": [
            {
                "name": METRIC,
                "singularName": "",
                "namespaced": True,
                "kind": _LIST,
                "verbs": ["get"],
            }
        ],
    },
    "/openapi/v2": {"swagger": "2.0", "info": _INFO, "paths": {}, "definitions": {}},
    "/openapi/v3": {"paths": {}},
}


def value_list(workloads: Iterable[tuple[ServiceName, Published]], wall: datetime) -> Object:
    """Return the values of Services.

    Arguments:
        wall: the time of day.
    """
    timestamp = wall.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "kind": _LIST,
        "apiVersion": GROUP_VERSION,
        "metadata": {},
        "items": [
            {
                "metricName": METRIC,
                "metricLabels": {SERVICE: name.name},
                "timestamp": timestamp,
                "value": quantity(workload.shown),
            }
            for name, workload in workloads
        ],
    }


def quantity(value: float) -> str:
    """Return a number of at least 0 as a Quantity in canonical form, with three decimals."""
    thousandths = round(value * 1000)
    whole, rest = divmod(thousandths, 1000)
    return f"{thousandths}m" if rest else str(whole)


def create_app(board: Board, is_leader: Callable[[], bool]) -> Starlette:
    """Return the application.

    Arguments:
        board: the published states.
        is_leader: returns whether this process decides.
    """

    async def values(request: Request) -> Response:
        metric = request.path_params["metric"]
        if metric != METRIC:
            return error(404, "NotFound", f"no metric {metric}: the one of this server is {METRIC}")
        if not is_leader() or not board.is_open:
            return error(503, "ServiceUnavailable", "this scaler is not the leader")
        try:
            selector = parse_selector(request.query_params.get("labelSelector", ""))
        except ValueError as wrong:
            return error(400, "BadRequest", f"labelSelector: {wrong}")
        found = (
            (name, published)
            for name, published in board.of_namespace(request.path_params["namespace"])
            if matches(selector, {SERVICE: name.name})
        )
        return _json(value_list(found, datetime.now(UTC)))

    routes = [Route(path, _constant(_json(content))) for path, content in DISCOVERY.items()]
    routes += [
        Route(path, _constant(PlainTextResponse("ok")))
        for path in ("/healthz", "/livez", "/readyz")
    ]
    path = f"/apis/{GROUP_VERSION}/namespaces/{{namespace}}/{{metric}}"
    routes.append(Route(path, values))
    return Starlette(routes=routes, exception_handlers={HTTPException: _on_error})


def _constant(response: Response) -> Callable[[Request], Response]:
    return lambda request: response


def _on_error(request: Request, raised: Exception) -> Response:
    assert isinstance(raised, HTTPException)
    reason = {404: "NotFound", 405: "MethodNotAllowed"}.get(raised.status_code, "InternalError")
    return error(raised.status_code, reason, raised.detail)


def error(code: int, reason: str, message: str) -> Response:
    """Return an error as an API server sends it.

    Arguments:
        reason: as in meta/v1's StatusReason.
    """
    return _json({**_FAILURE, "message": message, "reason": reason, "code": code}, code)


def _json(content: Object, code: int = 200) -> Response:
    body = json.dumps(content, separators=(",", ":"))
    return Response(body, code, media_type="application/json")


# -- label selectors in the text form of Kubernetes' API

_KEY: Final = r"(?P<key>[A-Za-z0-9](?:[A-Za-z0-9_./-]{0,315}[A-Za-z0-9])?)"
_VALUE: Final = r"[A-Za-z0-9_.-]{0,63}"
_EQUAL: Final = re.compile(rf"{_KEY}\s*(?P<operator>==|=|!=)\s*(?P<value>{_VALUE})")
_SET: Final = re.compile(
    rf"{_KEY}\s+(?P<operator>in|notin)\s*\(\s*(?P<values>{_VALUE}(?:\s*,\s*{_VALUE})*)\s*\)"
)
_EXISTS: Final = re.compile(rf"(?P<absent>!\s*)?{_KEY}")
#: Characters of a selector: an HPA's has a few dozen.
_LONGEST: Final = 4096
_SEPARATOR: Final = re.compile(r"\s*(,?)\s*")


class Requirement(NamedTuple):
    """One condition.

    Attributes:
        values: the label must have one of them; None if any value will do.
        negated: whether the condition must not hold.
    """

    key: str
    values: frozenset[str] | None
    negated: bool

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels fulfil the condition; an absent label has no value."""
        value = labels.get(self.key)
        holds = value is not None if self.values is None else value in self.values
        return holds is not self.negated


def parse_selector(text: str) -> tuple[Requirement, ...]:
    """Return the conditions of a selector; none for an empty one, which selects everything.

    Raises:
        ValueError: the text is no selector.
    """
    text = text[:_LONGEST].strip()
    found: list[Requirement] = []
    at = 0
    while at < len(text):
        if found:
            separator = _SEPARATOR.match(text, at)
            assert separator is not None
            if not separator[1]:
                raise ValueError(f"expected a comma at {text[at : at + 20]!r}")
            at = separator.end()
        requirement, at = _requirement(text, at)
        found.append(requirement)
    return tuple(found)


def matches(selector: tuple[Requirement, ...], labels: Mapping[str, str]) -> bool:
    """Return whether labels fulfil all conditions."""
    return all(each.matches(labels) for each in selector)


def _requirement(text: str, at: int) -> tuple[Requirement, int]:
    if found := _SET.match(text, at):
        values = frozenset(value.strip() for value in found["values"].split(","))
        return Requirement(found["key"], values, found["operator"] == "notin"), found.end()
    if found := _EQUAL.match(text, at):
        negated = found["operator"] == "!="
        return Requirement(found["key"], frozenset({found["value"]}), negated), found.end()
    if found := _EXISTS.match(text, at):
        return Requirement(found["key"], None, bool(found["absent"])), found.end()
    raise ValueError(f"no requirement at {text[at : at + 20]!r}")


@final
class ExternalMetricsPart(Board):
    """Publishes decisions to HPAs, and serves ``external.metrics.k8s.io``."""

    def __init__(self, context: PartContext, port: int) -> None:
        super().__init__(context.loads, context.clock)
        self._context = context
        self._port = port

    @asynccontextmanager
    async def listeners(self) -> AsyncIterator[Mapping[str, str]]:
        settings = self._context.settings
        tls = await asyncio.to_thread(server_tls, settings)
        sock = http_server.listen(settings.bind, self._port, "--external-metrics-port")
        app = create_app(self, self._context.is_leader)
        async with http_server.serving(app, sock, tls):
            yield {"external-metrics": http_server.address(sock)}


def make(context: PartContext) -> ExternalMetricsPart | None:
    """Return the part that serves ``external.metrics.k8s.io``; None if it is off."""
    port = context.settings.external_metrics_port
    return None if port is None else ExternalMetricsPart(context, port)


def server_tls(settings: ScaleSettings) -> ssl.SSLContext:
    """Return the TLS context of the port.

    Raises:
        AddressError: the files cannot be used, or no certificate can be made.
    """
    names = settings.external_metrics_tls_cert, settings.external_metrics_tls_key
    ca = settings.external_metrics_client_ca
    try:
        if (files := tls_files(*names, ca)) is not None:
            return FileTls(files).context
        host = f"activator-scale.{settings.system_namespace}.svc"
        return tls_context(*self_signed(host), client_ca=Path(ca).read_bytes() if ca else None)
    except (TlsFileError, CertificateError, OSError) as error:
        raise http_server.AddressError(f"--external-metrics-port: {error}") from error


# -- a certificate for clients that do not verify it, by the program ``openssl``
#
# Python makes no certificates, and a package for it would be in each image for this one use.

_DAYS: Final = 3650
_TIMEOUT: Final = 20.0
_CONFIG: Final = b"[req]\ndistinguished_name=names\n[names]\n"
_COMMAND: Final = (
    *("openssl", "req", "-x509", "-config", "/dev/stdin", "-nodes", "-days", str(_DAYS)),
    *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
    *("-keyout", "/dev/stdout", "-out", "/dev/stdout"),
)
_BEGIN: Final = b"-----BEGIN CERTIFICATE-----"


def self_signed(host: str) -> tuple[bytes, bytes]:
    """Return a new certificate and its key, PEM; no file holds them.

    Arguments:
        host: the name in the certificate.

    Raises:
        TlsFileError: this machine has no ``openssl``, or it fails.
    """
    names = ("-subj", "/CN=activator-scale", "-addext", f"subjectAltName=DNS:{host}")
    try:
        ended = subprocess.run(
            [*_COMMAND, *names], input=_CONFIG, capture_output=True, timeout=_TIMEOUT, check=True
        )
    except FileNotFoundError:
        raise TlsFileError("no program openssl to make a certificate: give files") from None
    except subprocess.SubprocessError as error:
        raise TlsFileError(f"openssl made no certificate: {error}") from error
    key, begin, certificate = ended.stdout.partition(_BEGIN)
    return begin + certificate, key
