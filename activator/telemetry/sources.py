"""The parts that count, as metrics see them: plain numbers, read only while metrics are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from activator.driver import Driver
from activator.records.loop_lag import LoopLag
from activator.records.source_status import SourceStatus


class Probes(Protocol):
    """What is counted of probes."""

    in_flight: int
    attempts: int

    @property
    def failures(self) -> Mapping[str, int]:
        """By reason."""


class Connections(Protocol):
    """What is counted of connections to pods."""

    @property
    def connections(self) -> int:
        """How many there are."""

    @property
    def idle(self) -> int:
        """How many of those in HTTP/1 carry no request."""

    @property
    def tls(self) -> object | None:
        """Not None where requests go over TLS."""


class Requests(Protocol):
    """What is counted outside any revision."""

    unknown_revisions: int
    bad_requests: int
    turned_away: int


class Heads(Protocol):
    """Request heads that have not come to their end."""

    bytes: int
    most: int


class Unread(Protocol):
    """Bytes that wait for peers that do not read."""

    bytes: int

    @property
    def most(self) -> float:
        """How many there may be."""

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
        """A function that returns how many files clients have."""

    @property
    def waiting(self) -> int:
        """How many connections to pods wait for a file."""


class Services(Protocol):
    """What exchanges share."""

    draining: bool


class Proxy(Protocol):
    """Where that is found."""

    @property
    def services(self) -> Services:
        """What exchanges share."""

    @property
    def files(self) -> Files:
        """The budget of open files."""

    @property
    def unfinished_heads(self) -> Heads:
        """What is kept of requests that have not begun."""

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
        """Return the seconds since its last sign of life; None before it is dialled."""


class RequestLines(Protocol):
    """What became of the request log's lines."""

    lines: int
    failures: int


class Outputs(Protocol):
    """The files that receive the logs."""

    @property
    def dropped(self) -> Mapping[str, int]:
        """How many lines were not written, by file."""


class TracedRequests(Protocol):
    """What became of the traced requests."""

    exported: int
    dropped: dict[str, int]


class Sent(Protocol):
    """What is counted of what is sent by OpenTelemetry's protocols."""

    @property
    def traces(self) -> TracedRequests:
        """Traces."""

    @property
    def pushes(self) -> Mapping[str, int]:
        """Pushes of metrics, by result."""


class Sources(Protocol):
    """The parts that count."""

    @property
    def driver(self) -> Driver:
        """Revisions, pods, requests."""

    @property
    def loop_lag(self) -> LoopLag:
        """How late the event loop is."""

    def ready(self) -> str:
        """Return why the activator is not ready; empty if it is."""

    @property
    def prober(self) -> Probes:
        """Probes."""

    @property
    def pools(self) -> Connections:
        """Connections to pods."""

    @property
    def proxy(self) -> Proxy:
        """Requests without a revision."""

    def source_status(self) -> SourceStatus | None:
        """Return the state of the source of objects; None before it is made."""

    @property
    def link(self) -> Link | None:
        """The autoscaler; None where there is none."""

    @property
    def config_errors(self) -> Mapping[str, int]:
        """Keys that cannot be used, by ConfigMap."""

    @property
    def request_log(self) -> RequestLines:
        """The request log."""

    @property
    def outputs(self) -> Outputs:
        """stdout and stderr."""

    @property
    def otel(self) -> Sent:
        """Traces and pushed metrics."""
