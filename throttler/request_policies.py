"""The policies of requests: classes, limits of queues, who may wake a revision, waiting clients.

Plain records without rules; the proxy follows them. Knative has no counterpart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

# The classes of queued requests: their names, their shares of the queue, and how requests age.
#
# Numbers instead of an enum, since the queue indexes by them. HAProxy's counterpart is
# ``http-request set-priority-class``, without ageing.

#: The classes; a lower number goes first.
HIGH: Final = 0
NORMAL: Final = 1
LOW: Final = 2
#: The names of the classes, by number.
NAMES: Final[tuple[str, ...]] = ("high", "normal", "low")
#: A class accepts one more request, or byte, up to this part of the queue's limits, percent. So the
#: rest stays free for higher classes.
SHARES: Final[tuple[int, ...]] = (100, 90, 75)
#: A request rises one class after each of these parts of its time-out.
RISES: Final[tuple[float, ...]] = (0.5, 0.75)


def share_of(limit: int, priority: int) -> int:
    """Return the part of a limit up to which a class may fill the queue, rounded up."""
    return -(-limit * SHARES[priority] // 100)


def rises_at(arrived: float, deadline: float, step: int) -> float:
    """Return when a request rises for the first time (``step`` 0) or the second time (1).

    Arguments:
        arrived, deadline: of the request, seconds on the caller's clock.
    """
    return arrived + (deadline - arrived) * RISES[step]


def rank_at(priority: int, arrived: float, deadline: float, now: float) -> int:
    """Return the class in which a request waits now: its own, or a higher one with age.

    Arguments:
        priority: its own class.
        arrived, deadline: of the request, seconds on the caller's clock.
    """
    if now >= rises_at(arrived, deadline, 0):
        priority -= 1
        if now >= rises_at(arrived, deadline, 1):
            priority -= 1
    return priority if priority > HIGH else HIGH


# The limits of queued requests and bytes: of one revision, and of all revisions, shared fairly.
#
# Counts the use and decides whether one more fits; knows neither queue nor tickets. Knative has
# no counterpart: its queues are unbounded.

#: One part in so many of the shared budget is reserved for revisions that use little of it.
RESERVED: Final = 4
#: The reserve is enough for so many revisions that queue at the same time. With the default limits
#: each may use 390 requests and 1 MiB of it.
RESERVED_FOR = 64


class QueueBudget:
    """A limit of queued requests and of their buffered bytes, with their current use.

    Attributes:
        depth: queued requests; max_depth: their limit.
        bytes: buffered bytes; max_bytes: their limit.
    """

    __slots__ = ("bytes", "depth", "max_bytes", "max_depth")

    def __init__(self, max_depth: int, max_bytes: int) -> None:
        self.max_depth = max_depth
        self.max_bytes = max_bytes
        self.depth = 0
        self.bytes = 0

    def exceeded_by(self, size: int) -> str | None:
        """Return the limit that one more request exceeds: depth, bytes or None."""
        if self.depth >= self.max_depth:
            return "depth"
        return None if self.fits(size) else "bytes"

    def fits(self, size: int) -> bool:
        """Return whether ``size`` more bytes are within the limit."""
        return self.bytes + size <= self.max_bytes


class SharedBudget(QueueBudget):
    """The budget of all revisions together; none can use it up alone.

    A revision above its small part of the reserve (``_reserve``) may use only the open part of the
    budget. So the reserve stays for revisions that use little. Such a revision is refused only if
    more than RESERVED_FOR revisions use their parts at the same time. The total never exceeds the
    limit, except for requeued requests, see QueuedTickets.restore.
    """

    __slots__ = ()

    def exceeded_for(self, own: QueueBudget, size: int) -> str | None:
        """Return the limit that one more request of a revision with ``own`` exceeds; O(1)."""
        if self.depth >= self.max_depth - _reserve(self.max_depth, own.depth + 1):
            return "depth"
        return None if self.fits_for(own, size) else "bytes"

    def fits_for(self, own: QueueBudget, size: int) -> bool:
        """Return whether ``size`` more bytes of a revision with ``own`` fit; O(1)."""
        return self.bytes + size <= self.max_bytes - _reserve(self.max_bytes, own.bytes + size)


def _reserve(limit: int, would_use: int) -> int:
    """Return the part of the limit that is reserved for revisions that use less than this one.

    Arguments:
        would_use: use of this revision after the addition.
    """
    reserve = limit // RESERVED
    return reserve if would_use > max(reserve // RESERVED_FOR, 1) else 0


#: Seconds of waiting after which a browser gets the waiting page.
PAGE_AFTER = 1.0
#: Seconds between two heartbeats of an event stream.
HEARTBEAT_EVERY = 15.0


class WaitMode(StrEnum):
    """What the client of a waiting request gets; the value is the word of the annotation.

    HOLD: nothing until a pod responds. PAGE: a page for people, which reloads itself. HEARTBEAT:
    the beginning of an event stream, and comments in it. REFUSE: 503 with Retry-After at once.
    """

    HOLD = "hold"
    PAGE = "page"
    HEARTBEAT = "heartbeat"
    REFUSE = "refuse"


class Profile(StrEnum):
    """A set of policies for one kind of application; the value is the word of the annotation.

    OPENAI: a server of the OpenAI API, which streams events and loads models for minutes.
    """

    OPENAI = "openai"


@dataclass(frozen=True, slots=True)
class WhileWaiting:
    """What the client of a waiting request gets.

    Attributes:
        modes: the first that fits a request counts; if none fits, the request is held.
        page_after: seconds of waiting after which a browser gets the page.
        heartbeat_every: seconds until an event stream begins, and between two comments in it.
        page_template: the name of the page's template; empty for the default page.
    """

    modes: tuple[WaitMode, ...]
    page_after: float = PAGE_AFTER
    heartbeat_every: float = HEARTBEAT_EVERY
    page_template: str = ""


class ProxyHeader(StrEnum):
    """The version of the PROXY header that names the client of a connection to its pod."""

    V1 = "v1"
    V2 = "v2"


@dataclass(frozen=True, slots=True)
class ConnectionPolicies:
    """The policies of the connections of a TCP Service.

    Attributes:
        wake_after: seconds after which a client that has sent no byte wakes the workload.
        by_bytes: whether only a connection on which bytes pass is load; else each open one is.
        send_proxy: the header before the first byte to a pod; None for none.
    """

    wake_after: float = 0.1
    by_bytes: bool = False
    send_proxy: ProxyHeader | None = None


@dataclass(frozen=True, slots=True)
class WakeRules:
    """Which requests may wait for a pod. Others get ``asleep_status`` while no pod is usable.

    Attributes:
        methods: the methods that may; empty for all.
        not_user_agents: a request whose User-Agent contains one of them, in lower case, may not.
        not_paths: a request for one of them, or for a path below it, may not.
        required_header: the name of a field, in lower case, that a request must have; empty: none.
        asleep_status: 200, 204 or 503.
    """

    methods: tuple[bytes, ...] = ()
    not_user_agents: tuple[bytes, ...] = ()
    not_paths: tuple[bytes, ...] = ()
    required_header: bytes = b""
    asleep_status: int = 503


@dataclass(frozen=True, slots=True)
class Authorization:
    """The server that allows a request to wait.

    Attributes:
        url: http or https; empty if the annotation is wrong, and then no request is allowed.
        always: whether it asks for each request; else only for one that would have to wait.
        cache_seconds: how long a result counts for equal requests; 0 for one request.
        cache_key: the names of the fields in which these requests are equal, in lower case; empty
            for all fields that the server gets.
        response_headers: the names of the server's response fields that pods get, in lower case.
            Pods never get a client's own fields of these names.
    """

    url: str
    always: bool = False
    cache_seconds: float = 0.0
    cache_key: tuple[bytes, ...] = ()
    response_headers: tuple[bytes, ...] = ()


#: The statuses by which a server denies a request: the client gets them. Others are failures.
DENIALS = frozenset((301, 302, 303, 307, 308, 401, 403))


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision about one request by the server that allows requests to wait.

    Attributes:
        status: of its response; 0 without one.
        lines: fields of its response as lines, each preceded by its CRLF. If it allows the request,
            they are for the pod, else for the client.
        body: of its response, for the client; empty if it is too long.
        error: why there is no decision, for people; empty with one.
    """

    status: int
    lines: bytes = b""
    body: bytes = b""
    error: str = ""

    @property
    def allows(self) -> bool:
        """Whether the request may wait."""
        return 200 <= self.status < 300

    @property
    def denies(self) -> bool:
        """Whether the client gets the response of the server, instead of 503."""
        return self.status in DENIALS


# Which requests a host, a path and header fields name; what the KEDA HTTP add-on's objects ask for.


class HeaderRule(NamedTuple):
    """A header field that a request must have.

    Attributes:
        name: in lower case.
        value: one of its field values, exactly; None for any.
    """

    name: bytes
    value: bytes | None = None


class RouteRule(NamedTuple):
    """Requests that match one of the hosts, one of the paths, and all headers.

    Attributes:
        hosts: in lower case without port and without a dot at the end. ``*.`` may come first and
            stands for one or more labels. None, or ``*``: any host.
        paths: prefixes by whole segments, without a slash at either end; none: any path.
        headers: all of them must match.
    """

    hosts: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    headers: tuple[HeaderRule, ...] = ()


@dataclass(frozen=True, slots=True)
class StaticResponse:
    """A response that an object of the KEDA HTTP add-on gives itself.

    Attributes:
        status: the status code.
        fields: header fields, each preceded by its CRLF; without Content-Length.
        body: the whole body; unused with ``key`` or ``by_path``.
        files: the keys of the ConfigMap that has the body, with their contents; None if the body
            comes from a ConfigMap that is missing, and the response is 500.
        key: the key of the body; empty for none. A missing key is 500.
        by_path: whether the path of the request, without its leading slash, is the key. ``/`` is
            ``index.html``; a missing key is an empty body.
        config_map: the name of the ConfigMap that has the body; empty for none.
    """

    status: int
    fields: bytes = b""
    body: bytes = b""
    files: Mapping[str, bytes] | None = field(default_factory=dict)
    key: str = ""
    by_path: bool = False
    config_map: str = ""


@dataclass(frozen=True, slots=True)
class StaticRoute:
    """Requests that get a static response. They are no load, and wake nothing.

    Attributes:
        rules: a request must match one of them; an empty rule matches each request.
        response: what they get.
        always: whether they get it although a pod is usable.
    """

    rules: tuple[RouteRule, ...]
    response: StaticResponse
    always: bool = False


@dataclass(frozen=True, slots=True)
class InterceptorRules:
    """What an object of the KEDA HTTP add-on asks for.

    Attributes:
        kind: the kind of the object: HTTPScaledObject or InterceptorRoute.
        target: what requests reach, as ``service:port``, for people.
        request_timeout: seconds from arrival to the last byte of the response; 0 for no limit.
        fallback: whether a request whose wait has reached its limit goes to the revision of the
            same name and of the kind FALLBACK; else it gets 504.
        placeholder: what requests get at once while no pod is usable; None: they wait.
        max_pending: limit of waiting requests; 0 for none.
        overflow: whether requests beyond that limit get the placeholder. Then others wait.
        static_routes: the first that matches counts.
        cold_start_header: whether responses of pods get X-KEDA-HTTP-Cold-Start.
        problem: why no pod can be found, whatever runs: a request whose wait has reached its limit
            then gets 500. Empty if pods can be found.
        window, granularity: seconds over which the rate of requests counts, and of its buckets; no
            window if the rate is no metric of the object.
    """

    kind: str
    target: str
    request_timeout: float = 0.0
    fallback: bool = False
    placeholder: StaticResponse | None = None
    max_pending: int = 0
    overflow: bool = False
    static_routes: tuple[StaticRoute, ...] = ()
    cold_start_header: bool = True
    problem: str = ""
    window: float = 0.0
    granularity: float = 1.0


@dataclass(frozen=True, slots=True)
class RequestPolicies:
    """The policies of requests without a pod.

    Attributes:
        waiting: what a waiting client gets; None: nothing until a pod responds.
        wake: which requests may wait; None: all.
        authorization: the server that allows a request to wait; None: every request may.
        profile: the kind of application; None for any.
        wait_seconds: how long a request may wait for a pod, seconds. The time-out of the response
            then counts from the assignment. 0: the time-out covers both.
        models: the ids of the models while no pod is usable, with profile OPENAI; empty: unknown.
        interceptor: what an object of the KEDA HTTP add-on asks for; None for other revisions.
    """

    waiting: WhileWaiting | None = None
    wake: WakeRules | None = None
    authorization: Authorization | None = None
    profile: Profile | None = None
    wait_seconds: float = 0.0
    models: tuple[str, ...] = ()
    interceptor: InterceptorRules | None = None
