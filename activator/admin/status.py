"""``activator status``: asks a running activator for its revisions and shows them in a table.

The client side of ``GET /api/v1/revisions``; an answer is checked field by field, because what
answers on a port need not be an activator. Must not import any part of the server, and imports
httpx and rich only when it runs, so that the command line stays quick.
Knative has no counterpart: its activator cannot be asked.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from time import monotonic
from typing import Any, Final, TextIO, TypeVar

T = TypeVar("T")

PATH: Final = "/api/v1/revisions"

# Between two reads and in all: far above any answer on the same machine or through kubectl
# port-forward, short for somebody who waits at a prompt.
READ_TIMEOUT: Final = 5.0
TOTAL_TIMEOUT: Final = 30.0

# 10,000 revisions of 10 pods are some 25 MiB; whatever sends more is no activator.
MAX_ANSWER: Final = 256 * 2**20

_SHOWN_OF_ODD_VALUE: Final = 60  # characters of a value that is shown in an error


class NoAnswer(Exception):
    """Nothing answers at the URL; says what was tried and how to get an activator there."""


class UnexpectedAnswer(Exception):
    """Something answers, but not as an activator does; says what it was."""


@dataclass(frozen=True, slots=True)
class Row:
    """One revision as the table shows it; the fields are its columns."""

    revision: str
    pods: str
    in_flight: str
    queued: str
    oldest_waiter: str
    state: str


COLUMNS: Final = tuple(column.name.replace("_", " ") for column in fields(Row))


def fetch(admin_url: str) -> str:
    """The text of the admin API's answer.

    Arguments:
        admin_url: an http or https URL of the admin side, with or without a slash at the end.

    Raises:
        NoAnswer: nobody listens there, or nobody answers in time.
        UnexpectedAnswer: the status is not 200, or the body is endless or no UTF-8.
    """
    import httpx

    url = admin_url.rstrip("/") + PATH
    try:
        # trust_env would send a question to 127.0.0.1 through a company's HTTP_PROXY.
        with (
            httpx.Client(timeout=READ_TIMEOUT, trust_env=False) as client,
            client.stream("GET", url, headers={"Accept": "application/json"}) as response,
        ):
            if response.status_code == httpx.codes.MISDIRECTED_REQUEST:
                raise UnexpectedAnswer(
                    f"what answers at {url} is not known by this host name: ask by its address, or "
                    f"name the host in its ACTIVATOR_ADMIN_HOSTS."
                )
            if response.status_code != httpx.codes.OK:
                raise UnexpectedAnswer(_unexpected(url, f"the status was {response.status_code}"))
            return _read(url, response.iter_bytes())
    except httpx.TimeoutException:
        raise NoAnswer(_no_answer(url, f"no answer within {READ_TIMEOUT:g} s")) from None
    except (httpx.RemoteProtocolError, httpx.DecodingError) as error:
        raise UnexpectedAnswer(_unexpected(url, f"it does not speak HTTP/1.1: {error}")) from None
    except (httpx.TransportError, httpx.InvalidURL) as error:
        raise NoAnswer(_no_answer(url, str(error) or type(error).__name__)) from None


def _read(url: str, chunks: Iterator[bytes]) -> str:
    body, until = bytearray(), monotonic() + TOTAL_TIMEOUT
    for chunk in chunks:
        body += chunk
        if len(body) > MAX_ANSWER:
            raise UnexpectedAnswer(_unexpected(url, f"the answer exceeds {MAX_ANSWER} bytes"))
        if monotonic() > until:
            raise NoAnswer(_no_answer(url, f"the answer had no end within {TOTAL_TIMEOUT:g} s"))
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise UnexpectedAnswer(_unexpected(url, "the answer is not UTF-8")) from None


def _no_answer(url: str, reason: str) -> str:
    return (
        f"no activator answers at {url}: {_printable(reason)}.\n"
        "Start one with `activator demo` or `activator local --manifests DIR`, or reach one in a "
        "cluster with\n"
        "  kubectl port-forward -n knative-serving deployment/activator 8080\n"
        "and leave that running. Another place is named with --admin-url or ACTIVATOR_ADMIN_URL."
    )


def _unexpected(url: str, reason: str) -> str:
    return (
        f"what answers at {url} is not an activator's admin side: {_printable(reason)}.\n"
        "Name the admin port (8080 unless --admin-port says otherwise) with --admin-url."
    )


def read_rows(text: str, admin_url: str) -> list[Row]:
    """The rows of an answer, in its order.

    Raises:
        UnexpectedAnswer: the text is not what the API is to send; names the field.
    """
    url = admin_url.rstrip("/") + PATH
    try:
        answer = json.loads(text)
        revisions = _field(_is(answer, dict, "the answer"), "revisions", list, "")
        return [_row(one, f"revisions[{index}]") for index, one in enumerate(revisions)]
    except (ValueError, RecursionError) as error:
        raise UnexpectedAnswer(_unexpected(url, str(error))) from None


def warnings(text: str) -> list[str]:
    """What the activator says is wrong with its manifests or with itself, a line each.

    Arguments:
        text: an answer that ``read_rows`` has taken.
    """
    activator = json.loads(text).get("activator")
    if not isinstance(activator, dict):
        return []
    lines = []
    if why := activator.get("notReadyReason"):
        lines.append(f"not ready: {_printable(str(why))}")
    errors = activator.get("manifestErrors")
    if isinstance(errors, dict):
        lines += [_printable(f"{path}: {why}") for path, why in errors.items()]
    return lines


def _row(revision: object, where: str) -> Row:
    one = _is(revision, dict, where)
    pods = [
        _is(pod, dict, f"{where}.pods[{index}]")
        for index, pod in enumerate(_field(one, "pods", list, where))
    ]
    pods = [pod for pod in pods if pod.get("state") != "gone"]
    healthy = sum(pod.get("state") == "healthy" for pod in pods)
    ready = sum(pod.get("kubernetes") == "ready" for pod in pods)
    queued = _field(one, "queued", int, where)
    name = f"{_field(one, 'namespace', str, where)}/{_field(one, 'name', str, where)}"
    return Row(
        revision=_printable(name),
        pods=f"{healthy}/{ready}/{len(pods)}",
        in_flight=f"{_field(one, 'inFlight', int, where)}/{_capacity(one, where)}",
        queued=str(queued),
        oldest_waiter=_oldest(one, where),
        state=_state(one, where, healthy, pods),
    )


def _capacity(one: dict[str, Any], where: str) -> str:
    capacity = one.get("capacity")
    if capacity is None:
        return "inf"
    unlimited = one.get("containerConcurrency") == 0 and capacity != 0
    return "inf" if unlimited else str(_is(capacity, int, f"{where}.capacity"))


def _oldest(one: dict[str, Any], where: str) -> str:
    seconds = one.get("oldestWaiterSeconds")
    if seconds is None:
        return "-"
    return f"{_is(seconds, (int, float), f'{where}.oldestWaiterSeconds'):.1f}s"


def _state(one: dict[str, Any], where: str, healthy: int, pods: Sequence[dict[str, Any]]) -> str:
    """What the revision does; while requests wait, why, in the activator's own words."""
    if reason := one.get("reason"):
        detail = one.get("reasonDetail")
        words = _is(reason, str, f"{where}.reason")
        return _printable(f"{words}: {detail}" if detail else words)
    service = one.get("clusterIP")
    if isinstance(service, dict) and service.get("usable") is True:
        return "serving by ClusterIP"
    if healthy:
        return "serving"
    return "starting" if pods else "scaled-to-zero"


def _field(of: dict[str, Any], name: str, kind: type[T], where: str) -> T:
    path = f"{where}.{name}".lstrip(".")
    if name not in of:
        raise ValueError(f"{path} is missing")
    return _is(of[name], kind, path)


def _is(value: object, kind: type[T] | tuple[type[T], ...], path: str) -> T:
    # JSON's true is no number, although Python's is.
    if not isinstance(value, kind) or isinstance(value, bool):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        expected = " or ".join(_JSON_NAMES[one] for one in kinds)
        shown = repr(value)[:_SHOWN_OF_ODD_VALUE]
        raise ValueError(f"{path}: expected {expected}, got {shown}")
    return value


_JSON_NAMES: Final[dict[type, str]] = {
    dict: "an object",
    list: "an array",
    str: "a text",
    int: "a whole number",
    float: "a number",
}


def _printable(text: str) -> str:
    """Without control characters: what a server sends must not steer the terminal."""
    return "".join(c if c.isprintable() else "?" for c in text)


def show(rows: Sequence[Row], out: TextIO) -> None:
    """Write the table: drawn for a terminal, in plain aligned columns for anything else."""
    if out.isatty():
        _draw(rows, out)
    else:
        out.write(plain(rows))


def plain(rows: Sequence[Row]) -> str:
    """Aligned columns, two blanks between them, one line for each revision below the heading."""
    heading = tuple(name.upper().replace(" ", "-") for name in COLUMNS)
    lines = [heading, *(_cells(row) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "".join("  ".join(map(str.ljust, line, widths)).rstrip() + "\n" for line in lines)


def _cells(row: Row) -> tuple[str, ...]:
    return tuple(getattr(row, column.name) for column in fields(Row))


def _draw(rows: Sequence[Row], out: TextIO) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(file=out)
    if not rows:
        console.print("This activator knows no revision yet.")
        return
    table = Table(caption="pods: healthy/ready/all - in flight: requests/capacity")
    for name in COLUMNS:
        table.add_column(name, justify="left" if name in ("revision", "state") else "right")
    for row in rows:
        style = (
            "green" if row.state.startswith("serving") else "yellow" if row.queued != "0" else ""
        )
        # Text, not markup: a name in brackets is no colour.
        table.add_row(*(Text(cell) for cell in _cells(row)), style=style)
    console.print(table)
