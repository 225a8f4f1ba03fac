"""Declares the numbers that metrics read from the parts that count."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from activator.driver import Driver
from activator.records.loop_lag import LoopLag
from activator.records.source_status import SourceStatus
from activator.tls.certificates import Certificates


class Probes(Protocol):
    """The counters of probes."""

    in_flight: int
    attempts: int

    @property
    def failures(self) -> Mapping[str, int]:
        """Failed probes by reason."""


class Connections(Protocol):
    """The counters of connections to pods."""

    @property
    def connections(self) -> int:
        """The number of open connections."""

    @property
    def idle(self) -> int:
        """The number of HTTP/1 connections that carry no request."""

    @property
    def tls(self) -> object | None:
        """Not None where requests go over TLS."""


class Requests(Protocol):
    """The counters of requests without a revision."""

    unknown_revisions: int
    bad_requests: int
    turned_away: int


class Heads(Protocol):
    """The budget of in-progress request heads."""

    bytes: int
    most: int


class Unread(Protocol):
    """The budget of bytes that peers do not read."""

    bytes: int

    @property
    def most(self) -> int:
        """The limit."""

    @property
    def ended(self) -> Mapping[str, int]:
        """Connections and streams that ended at the limit, by the peer that did not read."""


class FileShares(Protocol):
    """The shares of the open files of the process."""

    @property
    def traffic(self) -> int:
        """Files for clients and connections to pods."""


class Files(Protocol):
    """The budget of open files.

    Attributes:
        pods: files of connections to pods.
    """

    pods: int

    @property
    def shares(self) -> FileShares:
        """The shares of the limit."""

    @property
    def clients(self) -> Callable[[], int]:
        """A function that returns the number of clients' files."""

    @property
    def waiting(self) -> int:
        """The number of connections to pods that wait for a file."""


class Services(Protocol):
    """The state that exchanges share."""

    draining: bool


class Proxy(Protocol):
    """The parts of the byte path that count."""

    @property
    def services(self) -> Services:
        """The state that exchanges share."""

    @property
    def files(self) -> Files:
        """The budget of open files."""

    @property
    def head_budget(self) -> Heads:
        """The budget of in-progress request heads."""

    @property
    def unread(self) -> Unread:
        """The bytes that clients and pods do not read."""

    @property
    def counters(self) -> Requests:
        """The counters."""


class Link(Protocol):
    """The connection to the autoscaler."""

    connected: bool
    ever_connected: bool
    connection_losses: int

    def age(self) -> float | None:
        """Return the seconds since the last sign of life; None before the first dial."""


class RequestLines(Protocol):
    """The counters of the request log."""

    lines: int
    failures: int


class Outputs(Protocol):
    """The files that receive the logs."""

    @property
    def dropped(self) -> Mapping[str, int]:
        """The number of dropped lines by file."""


class TracedRequests(Protocol):
    """The counters of traced requests."""

    exported: int
    dropped: dict[str, int]


class Sent(Protocol):
    """The counters of traces and metric pushes."""

    @property
    def traces(self) -> TracedRequests:
        """The counters of traced requests."""

    @property
    def pushes(self) -> Mapping[str, int]:
        """Pushes of metrics, by result."""


class Links(Protocol):
    """The connections to the autoscalers."""

    @property
    def autoscaler(self) -> Link | None:
        """The connection to the autoscaler of Revisions; None without one."""

    @property
    def scaler(self) -> Link | None:
        """The connection to the scaler of Services; None without one."""


class Observers(Protocol):
    """The parts that observe the others."""

    @property
    def loop_lag(self) -> LoopLag:
        """The delay of the event loop."""

    @property
    def certificates(self) -> Certificates:
        """The certificates of the listeners."""

    @property
    def request_log(self) -> RequestLines:
        """The request log."""

    @property
    def outputs(self) -> Outputs:
        """stdout and stderr."""

    @property
    def otel(self) -> Sent:
        """Traces and pushed metrics."""


class Authorizer(Protocol):
    """The sub-requests to authorization servers."""

    @property
    def counts(self) -> Mapping[str, int]:
        """Decisions by result."""

    @property
    def waiting(self) -> int:
        """Requests that wait for a decision."""


class Sources(Protocol):
    """The parts that count."""

    @property
    def driver(self) -> Driver:
        """Revisions, pods, requests."""

    def ready(self) -> str:
        """Return why the activator is not ready; empty while it is ready."""

    @property
    def prober(self) -> Probes:
        """Probes."""

    @property
    def pools(self) -> Connections:
        """Connections to pods."""

    @property
    def proxy(self) -> Proxy:
        """The byte path."""

    @property
    def authorizer(self) -> Authorizer:
        """Authorization of requests."""

    def source_status(self) -> SourceStatus | None:
        """Return the state of the source of objects; None before the source exists."""

    @property
    def links(self) -> Links:
        """The connections to the autoscalers."""

    @property
    def config_errors(self) -> Mapping[str, int]:
        """The number of unusable keys by ConfigMap."""

    @property
    def observers(self) -> Observers:
        """The logs, traces, pushed metrics, and the delay of the event loop."""
