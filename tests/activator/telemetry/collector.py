"""An OpenTelemetry collector on the loopback: accepts OTLP by HTTP or gRPC, and decodes it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from typing import Any

import grpc
from opentelemetry.proto.collector.metrics.v1 import (
    metrics_service_pb2,
    metrics_service_pb2_grpc,
)
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

from tests.process import PATIENCE


class Collector:
    """What the collector received.

    Attributes:
        url: its address; status: of each response over HTTP.
        paths, headers: of the requests over HTTP.
        open: cleared while requests are kept waiting.
    """

    def __init__(self) -> None:
        self.url = ""
        self.status = 200
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.open = threading.Event()
        self.open.set()
        self.traces: Queue[Any] = Queue()
        self.metrics: Queue[Any] = Queue()

    def spans(self, timeout: float = PATIENCE) -> list[Any]:
        """Return the next request's spans, with their resource's attributes as ``resource``."""
        message = self.traces.get(timeout=timeout)
        return [
            span
            for resource in message.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


def attributes(of: Any) -> dict[str, Any]:
    """Return the attributes of a span, a point or a resource."""
    return {pair.key: value(pair.value) for pair in of.attributes}


def value(of: Any) -> Any:
    return getattr(of, of.WhichOneof("value"))


@contextmanager
def http_collector(host: str = "127.0.0.1") -> Iterator[Collector]:
    """Run a collector that accepts OTLP over HTTP."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.paths.append(self.path)
            collector.headers.append(dict(self.headers))
            collector.open.wait()
            if collector.status == 200:
                _keep(collector, self.path, body)
            self.send_response(collector.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer((host, 0), Handler)
    server.daemon_threads = True
    collector.url = f"http://{host}:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield collector
    finally:
        collector.open.set()
        server.shutdown()
        thread.join()
        server.server_close()


def _keep(collector: Collector, path: str, body: bytes) -> None:
    if path.endswith("metrics"):
        metrics = metrics_service_pb2.ExportMetricsServiceRequest()
        metrics.ParseFromString(body)
        collector.metrics.put(metrics)
    else:
        traces = trace_service_pb2.ExportTraceServiceRequest()
        traces.ParseFromString(body)
        collector.traces.put(traces)


@contextmanager
def grpc_collector() -> Iterator[Collector]:
    """Run a collector that accepts OTLP over gRPC."""
    collector = Collector()

    class Traces(trace_service_pb2_grpc.TraceServiceServicer):
        def Export(self, request: Any, context: Any) -> Any:
            collector.traces.put(request)
            return trace_service_pb2.ExportTraceServiceResponse()

    class Metrics(metrics_service_pb2_grpc.MetricsServiceServicer):
        def Export(self, request: Any, context: Any) -> Any:
            collector.metrics.put(request)
            return metrics_service_pb2.ExportMetricsServiceResponse()

    server = grpc.server(ThreadPoolExecutor(2))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Traces(), server)
    metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server(Metrics(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    collector.url = f"http://127.0.0.1:{port}"
    try:
        yield collector
    finally:
        server.stop(None).wait()
