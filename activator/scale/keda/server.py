"""Serves KEDA's calls from the scaler's state of each Service, on one port with or without TLS.

KEDA drops ``active`` while a ScaledObject has no metric names yet, and ignores ``inactive`` on a
stream (keda issue 7116). So a stream repeats ``active`` while a Service is active, and ``IsActive``
gives the state whenever KEDA polls.

KEDA scales from 0 to 1 as soon as a stream sends ``active``. For a Service, that request competes
with the scaler's own, which has the ``initial-scale``. So its stream is a moment late. The streams
of route objects of the HTTP add-on are not: KEDA alone starts their workloads.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import grpc
from google.protobuf.message import DecodeError

from activator.keda.metrics import OWN_TRIGGER, ROUTE_TRIGGER, TRIGGERS
from activator.scale.board import Board
from activator.scale.http_server import AddressError
from activator.scale.keda import SERVICE_KEY
from activator.scale.keda import externalscaler_pb2 as wire
from activator.scale.keda.routes import Routes, TriggerError
from activator.scale.reports.load import ServiceName
from activator.tls.certificates import TlsFileError, TlsFiles

logger = logging.getLogger(__name__)

#: Seconds between two repetitions of ``active`` on a stream.
REPEAT: Final = 0.5
#: Seconds in which the scaler itself starts the first pods, until a stream sends ``active``.
HEAD_START: Final = 0.5
#: Streams that one scaler serves; KEDA opens one for each ScaledObject.
MOST_STREAMS: Final = 20_000


#: The keys of triggers that name route objects.
ROUTE_KEYS: Final = {*TRIGGERS, OWN_TRIGGER}
#: HealthCheckResponse in protobuf: its field ``status``.
_SERVING: Final = b"\x08\x01"
_NOT_SERVING: Final = b"\x08\x02"


class _Trigger(NamedTuple):
    """What the trigger of a call reads now.

    Attributes:
        metrics: the parts of a response, of both kinds, for each metric.
        differs: waits for a change of ``active``.
        head_start: seconds by which a stream sends a change to active late.
    """

    active: bool
    metrics: Sequence[tuple[Any, Any]]
    differs: Callable[[], Awaitable[object]]
    head_start: float = 0.0


class ExternalScaler:
    """The methods of KEDA's service.

    Arguments:
        services: what is known of all Services.
        is_leader: returns whether this process decides; others refuse, and KEDA tries again.
        routes: the route objects of the HTTP add-on; None to serve none.
    """

    def __init__(
        self, services: Board, is_leader: Callable[[], bool], routes: Routes | None = None
    ) -> None:
        self._services = services
        self._routes = routes
        self.is_leader = is_leader
        self.streams = 0

    async def is_active(self, ref: Any, context: Any) -> Any:
        """Return whether the workload of a ScaledObject must not be scaled to zero."""
        trigger = await self._find(ref, context, counts=True)
        return wire.IsActiveResponse(result=trigger.active)

    async def stream_is_active(self, ref: Any, context: Any) -> AsyncGenerator[Any, None]:
        """Yield the state at once, each change, and ``active`` again and again while it lasts.

        The change of a Service to ``active`` comes ``HEAD_START`` seconds late.
        """
        trigger = await self._find(ref, context)
        if self.streams >= MOST_STREAMS:
            text = f"more than {MOST_STREAMS} streams"
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, text)
        self.streams += 1
        try:
            while True:
                yield wire.IsActiveResponse(result=trigger.active)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(REPEAT if trigger.active else None):
                        await trigger.differs()
                if not trigger.active:
                    await asyncio.sleep(trigger.head_start)
                trigger = await self._find(ref, context)
        finally:
            self.streams -= 1

    async def get_metric_spec(self, ref: Any, context: Any) -> Any:
        """Return the name of each metric, and its target per pod."""
        trigger = await self._find(ref, context)
        return wire.GetMetricSpecResponse(metricSpecs=[spec for spec, _ in trigger.metrics])

    async def get_metrics(self, request: Any, context: Any) -> Any:
        """Return the metrics; of an InterceptorRoute only the one that the call names."""
        ref = getattr(request, "scaledObjectRef", request)
        trigger = await self._find(ref, context, counts=True)
        values = [value for _, value in trigger.metrics]
        if request.metricName and ROUTE_TRIGGER in ref.scalerMetadata:
            values = [each for each in values if each.metricName == request.metricName]
        return wire.GetMetricsResponse(metricValues=values)

    async def _find(self, ref: Any, context: Any, *, counts: bool = False) -> _Trigger:
        """Return what a trigger reads; end the call if there is nothing to read.

        Arguments:
            ref: the object of the call, or the error of a call without one.
            counts: whether the call needs a load: while no interceptor is known, it ends.
        """
        try:
            if isinstance(ref, DecodeError):
                raise TriggerError("INVALID_ARGUMENT", str(ref))
            if not self.is_leader():
                raise TriggerError("UNAVAILABLE", "this scaler is not the leader")
            if self._routes is None or not ref.scalerMetadata.keys() & ROUTE_KEYS:
                return self._of_service(ref)
            if counts and not self._routes.has_counts():
                text = "no interceptor has reported its requests for a while"
                raise TriggerError("UNAVAILABLE", text)
            return self._of_route(self._routes, ref)
        except TriggerError as error:
            await context.abort(grpc.StatusCode[error.code], str(error))
            raise

    def _of_route(self, routes: Routes, ref: Any) -> _Trigger:
        name, active, values = routes.read(ref.namespace, ref.name, ref.scalerMetadata)
        metrics = []
        for (metric, target, _, is_whole), value in values:
            if is_whole:
                spec = wire.MetricSpec(metricName=metric, targetSize=round(target))
                metrics.append((spec, wire.MetricValue(metricName=metric, metricValue=int(value))))
            else:
                spec = wire.MetricSpec(metricName=metric, targetSizeFloat=target)
                metrics.append((spec, wire.MetricValue(metricName=metric, metricValueFloat=value)))
        # An active object is read again soon anyway.
        event = asyncio.Event() if active else routes.requested(name)
        return _Trigger(active, metrics, event.wait)

    def _of_service(self, ref: Any) -> _Trigger:
        name = ref.scalerMetadata.get(SERVICE_KEY, "")
        if not name:
            raise TriggerError(
                "INVALID_ARGUMENT",
                f"ScaledObject {ref.namespace}/{ref.name}: its trigger lacks the metadata "
                f"{SERVICE_KEY}, the name of the Service",
            )
        service = ServiceName(ref.namespace, name)
        workload = self._services.workload(service)
        if workload is None:
            raise TriggerError(
                "NOT_FOUND",
                f"Service {ref.namespace}/{name} does not exist, or lacks the annotation "
                f"activator.dev/enabled=true",
            )
        metric, target, load = metric_name(service), workload.target, workload.shown
        spec = wire.MetricSpec(
            metricName=metric, targetSize=max(round(target), 1), targetSizeFloat=target
        )
        value = wire.MetricValue(metricName=metric, metricValue=round(load), metricValueFloat=load)
        differs = partial(self._services.differs, service, workload.active)
        return _Trigger(workload.active, [(spec, value)], differs, HEAD_START)


def metric_name(service: ServiceName) -> str:
    """Return the name of a Service's metric; KEDA puts ``sN-`` before it."""
    return f"activator-{service.namespace}-{service.name}"


def handlers(scaler: ExternalScaler) -> Any:
    """Return what a ``grpc.aio`` server needs to serve KEDA."""

    def method(handler: Any, call: Any, request: Any) -> Any:
        return handler(call, partial(_decoded, request), _encoded)

    unary, stream = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
    methods = {
        "IsActive": method(unary, scaler.is_active, wire.ScaledObjectRef),
        "StreamIsActive": method(stream, scaler.stream_is_active, wire.ScaledObjectRef),
        "GetMetricSpec": method(unary, scaler.get_metric_spec, wire.ScaledObjectRef),
        "GetMetrics": method(unary, scaler.get_metrics, wire.GetMetricsRequest),
    }
    return grpc.method_handlers_generic_handler("externalscaler.ExternalScaler", methods)


def health(scaler: ExternalScaler) -> Any:
    """Return what a ``grpc.aio`` server needs for the probes of kubelet.

    The add-on has two services: ``liveness``, and ``readiness``, which needs the lead.
    Source: grpc.health.v1 in grpc-proto.
    """

    async def check(data: bytes, context: Any) -> bytes:
        name = data[2:].decode(errors="replace")  # the only field, behind its tag and its length
        if name not in ("", "liveness", "readiness"):
            await context.abort(grpc.StatusCode.NOT_FOUND, "the services are liveness, readiness")
        is_serving = name != "readiness" or scaler.is_leader()
        return _SERVING if is_serving else _NOT_SERVING

    methods = {"Check": grpc.unary_unary_rpc_method_handler(check)}
    return grpc.method_handlers_generic_handler("grpc.health.v1.Health", methods)


def _decoded(message: Any, data: bytes) -> Any:
    """Return a message, or the error: gRPC would log a raised one, with a stack."""
    try:
        return message.FromString(data)
    except DecodeError as error:
        return error


def _encoded(message: Any) -> bytes:
    return bytes(message.SerializeToString())


# -- the listener

#: Two scalers on one port would both respond. KEDA may send a ping every 10 s (gRPC's least), also
#: without calls. A peer that is gone must not keep its streams.
_OPTIONS: Final = (
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
    ("grpc.max_receive_message_length", 1 << 20),
)
#: Seconds for calls under way when the server closes; streams never end by themselves.
_LAST_CALLS: Final = 0.5


class KedaListener:
    """The gRPC server of a scaler.

    Arguments:
        scaler: serves the calls.
        files: the certificate; None for plain HTTP/2.
    """

    def __init__(self, scaler: ExternalScaler, files: TlsFiles | None = None) -> None:
        self._scaler = scaler
        self._files = files
        self._server: Any = None
        self._address = "", 0

    async def start(self, host: str, port: int) -> int:
        """Listen, and return the port.

        Raises:
            AddressError: the address is in use, or not an address of this machine.
            TlsFileError: the files cannot be used.
        """
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        server = grpc.aio.server(options=_OPTIONS)
        server.add_generic_rpc_handlers((handlers(self._scaler), health(self._scaler)))
        try:
            if self._files is None:
                bound = server.add_insecure_port(address)
            else:
                bound = server.add_secure_port(address, _credentials(self._files))
        except RuntimeError:
            bound = 0
        if not bound:
            raise AddressError(f"cannot listen on {address}: it is in use, or not local")
        await server.start()
        self._server, self._address = server, (host, int(bound))
        return int(bound)

    async def restart(self) -> None:
        """Close all connections, and listen again; KEDA connects to the next leader."""
        if self._server is not None:
            await self._server.stop(_LAST_CALLS)
        if self._server is not None:  # not closed meanwhile
            await self.start(*self._address)

    async def close(self) -> None:
        """Close the port and all connections; KEDA connects to the next leader."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop(_LAST_CALLS)


def _credentials(files: TlsFiles) -> Any:
    """Return credentials that follow the files.

    gRPC calls ``fetch`` before each handshake, from a thread of its own.
    """
    first = _configuration(files)
    seen = files.look()

    def fetch() -> Any:
        nonlocal seen
        try:
            if (now := files.look()) == seen:
                return None
            seen = now
            return _configuration(files)
        except (OSError, TlsFileError) as error:
            logger.warning("KEDA's port: the last certificate stays in force: %s", error)
            return None

    required = files.client_ca is not None
    return grpc.dynamic_ssl_server_credentials(first, fetch, required)


def _configuration(files: TlsFiles) -> Any:
    certificate, key, client_ca = files.read()
    return grpc.ssl_server_certificate_configuration([(key, certificate)], client_ca)
