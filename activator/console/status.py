"""Make the page of ``activator status``: all revisions in one table, and the age of their state.

It reads the responses of ``GET /api/v1/revisions`` and ``GET /api/v1/activator``, and leaves out
missing fields. Must not import any part of the server, nor know how a response is requested or
drawn. Knative has no counterpart: its activator has no API.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from itertools import chain, islice
from typing import Final

from activator.console import client
from activator.console.screen import Fact, Page, Table
from throttler.reason import OF_STARTS, of_connections


@dataclass(frozen=True, slots=True)
class StatusRow:
    """One revision as the table shows it; the fields are its columns.

    The table has the column ``kind`` only if it shows other objects than Revisions. Then the
    column ``revision`` has the heading ``name``.
    """

    kind: str
    revision: str
    pods: str
    in_flight: str
    queued: str
    oldest_waiter: str
    state: str


#: Seconds of a start that is not late, while none has ended before.
FIRST_START: Final = 30.0

_REVISION: Final = "revision"
_SERVICE: Final = "service"
_ROUTE: Final = "http-route"
#: The kind of the revision of each kind of objects.
KINDS: Final = {
    "Revision": _REVISION,
    "Service": _SERVICE,
    "HTTPScaledObject": _ROUTE,
    "InterceptorRoute": _ROUTE,
}
#: The reasons of warnings about objects whose requests no pod can get, whatever starts.
_UNREACHABLE: Final = ("no-such-service", "no-such-port", "own-port")
COLUMNS: Final = tuple(column.name.replace("_", " ") for column in fields(StatusRow))


def read_rows(response: client.Json) -> list[StatusRow]:
    """Return the rows of a response, in its order.

    Raises:
        ValueError: the response does not follow the API; the text names the field.
    """
    wrong = dict[tuple[str, ...], str]()
    with suppress(ValueError):  # the command still shows the table
        for each in response.part("activator").nodes("objectWarnings", required=False):
            if (reason := each.text("reason", default="")) in _UNREACHABLE:
                wrong[named(each)] = f"{reason}: {each.text('warning')}"
    return [_row(one, wrong.get(named(one), "")) for one in response.nodes("revisions")]


def named(one: client.Json) -> tuple[str, ...]:
    """Return kind, namespace and name of the revision of a view, or of a warning about it.

    An older activator has no kind. Of objects that no revision is made of, the kind is their own.
    """
    kind = one.text("kind", default=_REVISION)
    return KINDS.get(kind, kind), one.text("namespace"), one.text("name")


def page(rows: Sequence[StatusRow], for_terminal: bool) -> Page:
    """Return the page."""
    if for_terminal and not rows:
        return ("No revision, Service or route object is known yet.",)
    shows_kind = any(row.kind != _REVISION for row in rows)
    columns = fields(StatusRow)[0 if shows_kind else 1 :]
    names = [column.name.replace("_", " ") for column in columns]
    table = Table(
        tuple("name" if shows_kind and name == "revision" else name for name in names),
        tuple(tuple(getattr(row, column.name) for column in columns) for row in rows),
        right=frozenset(COLUMNS) - {"kind", "revision", "name", "state"},
        styles=tuple(map(_style, rows)),
        caption="pods: healthy/ready/all - in flight: requests/capacity",
        heads=2 if shows_kind else 1,
    )
    return (table,)


def warnings(response: client.Json) -> list[str]:
    """Return the problems of the activator and of its manifests, a line each."""
    lines = list[str]()
    with suppress(ValueError):  # the command still shows the table
        activator = response.part("activator")
        lines += chain(readiness(activator), _errors(activator.part("manifestErrors")))
    return lines


def _row(one: client.Json, wrong: str) -> StatusRow:
    pods = [pod for pod in one.nodes("pods") if pod.text("state", default="") != "gone"]
    healthy = sum(pod.text("state", default="") == "healthy" for pod in pods)
    ready = sum(pod.text("kubernetes", default="") == "ready" for pod in pods)
    kind = named(one)[0]
    return StatusRow(
        # An activator before 0.3 does not name the object.
        kind=one.text("object", default=kind) if kind == _ROUTE else kind,
        revision=f"{one.text('namespace')}/{one.text('name')}",
        pods=f"{healthy}/{ready}/{len(pods)}",
        in_flight=f"{one.whole('inFlight')}/{capacity(one)}",
        queued=str(one.whole("queued")),
        oldest_waiter=oldest(one),
        state=_state(one, pods, wrong),
    )


def is_service(one: client.Json) -> bool:
    """Return whether a revision is a plain Service; older activators have no such field."""
    return one.text("kind", default="") == _SERVICE


def is_plain(one: client.Json) -> bool:
    """Return whether a revision is none of Knative's."""
    return one.text("kind", default=_REVISION) != _REVISION


def unit(one: client.Json) -> str:
    """Return the word for an element of the queue: ``request`` or ``connection``."""
    return "connection" if one.text("protocol", default="") == "tcp" else "request"


def worded(one: client.Json, text: str) -> str:
    """Return a text about requests; it speaks of connections if the protocol is TCP."""
    return of_connections(text) if unit(one) == "connection" else text


def capacity(one: client.Json) -> str:
    """Return a revision's capacity; ``inf`` is no limit."""
    if "capacity" not in one:
        return "inf"
    number = one.whole("capacity")
    return "inf" if number and one.whole("containerConcurrency", default=1) == 0 else str(number)


def oldest(one: client.Json) -> str:
    """Return how long the first in a revision's queue has waited."""
    name = "oldestWaiterSeconds"
    return f"{one.number(name):.1f}s" if name in one else "-"


def failed(one: client.Json) -> int:
    """Return how many cold starts failed since the last one that succeeded."""
    return one.whole("failedStarts", default=0)


def starting(one: client.Json, reason: str, *, late: bool = True) -> str:
    """Return how far a start is; empty if none is in progress, or if pods have another problem.

    Arguments:
        late: whether to describe a start that takes longer than usual, too. After a failed start
            each one is late while no usual time is known.
    """
    forecast = one.part("forecast")
    if reason not in OF_STARTS or one.flag("deleted") or "startingSeconds" not in forecast:
        return ""
    took, usual = forecast.number("startingSeconds"), forecast.number("startSeconds", default=0.0)
    first = 0.0 if failed(one) else FIRST_START
    if took <= (usual or first):
        return f"starting, {took:.1f}{f' of about {usual:.3g}' if usual else ''} s"
    usually = f", longer than the usual {usual:.3g} s" if usual else ""
    return f"starting for {took:.1f} s{usually}; {reason}" if late else ""


def _state(one: client.Json, pods: Sequence[client.Json], wrong: str) -> str:
    """Return the state of a revision; while requests wait, the reason and its detail.

    Arguments:
        wrong: why no pod can get its requests; empty if pods can.
    """
    count = failed(one)
    failures = f", {count} failed start{'s' * (count > 1)}" if count else ""
    if wrong and not any(pod.flag("usable") for pod in pods):
        return wrong + failures
    if reason := one.text("reason", default=""):
        if start := starting(one, reason, late=False):
            return start
        detail = one.text("reasonDetail", default="")
        return f"{reason}: {detail}" if detail else reason
    if one.flag("deleted"):
        return "deleted"
    if one.part("clusterIP").flag("usable"):
        return "serving by ClusterIP"
    if any(pod.flag("usable") for pod in pods):
        return "serving"
    if any(pod.text("decidedBy", default="") == "workload-sleeps" for pod in pods):
        return f"asleep{failures}"
    if out := _out(pods):
        return f"{out} (no {unit(one)} waits)"
    starts = pods or "startingSeconds" in one.part("forecast")
    return ("starting" if starts else "scaled-to-zero") + failures


#: Rules that keep a failing pod from use, with the reason to wait of each.
_OUT: Final = {"probe-failed": "probe-failing", "answered-badly": "bad-answers"}


def _out(pods: Sequence[client.Json]) -> str:
    """Return why a request would wait although Kubernetes lists ready pods; empty if none would."""
    ready = (pod for pod in pods if pod.text("kubernetes", default="") == "ready")
    rules = (pod.text("decidedBy", default="") for pod in ready)
    return next((_OUT[rule] for rule in rules if rule in _OUT), "")


_WRONG: Final = ("(no request waits)", "(no connection waits)", "failed start")


def _style(row: StatusRow) -> str:
    if row.state.startswith("serving"):
        return "green"
    return "yellow" if row.queued != "0" or any(words in row.state for words in _WRONG) else ""


# -- the age of an activator's state: of its watches, its folder and its links

#: Seconds of silence after which a watch may be stale. A good watch receives something each minute.
OLD: Final = 120.0
#: Most errors of a folder on the page of one revision.
LISTED_ERRORS: Final = 5


def state_of(activator: client.Json, shown: Iterable[str] = ()) -> tuple[Fact, ...]:
    """Return the state of an activator, without its revisions.

    Arguments:
        shown: the warnings that the page has elsewhere.

    Raises:
        ValueError: the response does not follow the API; the text names the field.
    """
    found = chain.from_iterable(part(activator) for part in _PARTS)
    lines = tuple(line for line in found if not line.endswith(tuple(shown)))
    return (Fact("Activator", lines),) if lines else ()


def readiness(activator: client.Json) -> Iterator[str]:
    """Yield why an activator is not ready, and its certificates that expire.

    Raises:
        ValueError: as ``state_of``.
    """
    if why := activator.text("notReadyReason", default=""):
        yield not_ready(why)
    if "certificateWarnings" in activator:
        yield from activator.texts("certificateWarnings")


#: kubelet gets Knative's texts (pkg/activator/handler, cmd/activator/main.go). They do not name the
#: connection, and they name kubelet also after a Ctrl-C.
_NOT_READY: Final = {
    "connection has not yet been established": "no connection to the autoscaler",
    "received SIGTERM from kubelet": "it is shutting down, and ends after its requests",
}


def not_ready(why: str) -> str:
    """Return ``notReadyReason`` in words for people."""
    return f"not ready: {_NOT_READY.get(why, why)}"


def _watches(activator: client.Json) -> Iterator[str]:
    followed = list(activator.part("watches").children())
    old: dict[str, list[tuple[str, float]]] = {}
    for kind, watch in followed:
        age, error = watch.number("ageSeconds", default=-1.0), watch.text("error", default="")
        if error or age > OLD:
            old.setdefault(error, []).append((kind, age))
    for error, found in old.items():  # usually the API server is away, for all
        kinds, age = ", ".join(kind for kind, _ in found), max(age for _, age in found)
        if age < 0:  # since the start, as for a kind that the role does not allow
            yield f"{kinds}: nothing received yet{_because(error)}"
        else:
            silent = f"{kinds}: nothing received for {age:.1f}s{_because(error)}"
            yield f"{silent}; the last state is in force"
    if followed and not old:
        yield "all watches of the cluster are current"


def _folder(activator: client.Json) -> Iterator[str]:
    if (folder := activator.node("manifests")) is not None:
        where, ago = folder.text("folder", default="?"), folder.number("ageSeconds", default=0.0)
        yield f"objects come from {where}, read {ago:.1f}s ago"
    yield from islice(_errors(activator.part("manifestErrors")), LISTED_ERRORS)


def _errors(errors: client.Json) -> Iterator[str]:
    """Yield the errors of files, a line for each object."""
    for path, text in errors.items():
        for why in str(text).split("\n"):
            yield f"{path}: {client.printable(why)}"


def _autoscaler(activator: client.Json) -> Iterator[str]:
    for name, who in (("autoscaler", "the autoscaler"), ("scaler", "the scaler of Services")):
        link = activator.node(name)
        if link is not None and link.flag("connected"):
            yield f"{who} is connected"
        elif link is not None:
            silent = (
                f"; silent for {link.number('ageSeconds'):.1f}s" if "ageSeconds" in link else ""
            )
            why = _because(link.text("lastError", default=""))
            yield f"{who} is not connected{silent}{why}"


_PARTS: Final = (readiness, _watches, _folder, _autoscaler)


def _because(error: str) -> str:
    return f" ({error})" if error else ""
