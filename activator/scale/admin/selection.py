"""Selects the Services that one page of the scaler's dashboard shows. Pure.

A cluster may have thousands of Services, and the page reads them every second. So the scaler
filters and sorts, and makes the views of the shown Services only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Final, NamedTuple

from activator.scale import reasons
from activator.scale.decisions.plan import WorkloadPhase
from activator.scale.decisions.record import Record
from activator.scale.reports.load import Loads, ServiceName

#: Most digits of a number in a query.
_DIGITS: Final = 9


class Sort(Enum):
    """The order of Services; the value is what a query has.

    ATTENTION: problems first, then starting, awake and sleeping Services. NAME: by namespace and
    name. The others put the largest or the newest first. Equal ones are in the order of names.
    """

    NAME = "name"
    ATTENTION = "attention"
    REPLICAS = "replicas"
    LOAD = "load"
    CHANGE = "change"


class Query(NamedTuple):
    """Which Services are wanted.

    Attributes:
        namespace: empty for all namespaces.
        words: texts that the name, target, owner, route, phase or reason must have.
        problems: whether only Services with a problem are wanted.
        sort: their order.
        offset: the number of Services that are left out at the start.
        limit: most Services; None for all.
    """

    namespace: str = ""
    words: tuple[str, ...] = ()
    problems: bool = False
    sort: Sort = Sort.NAME
    offset: int = 0
    limit: int | None = None


class Selection(NamedTuple):
    """The selected Services, and sums over all Services, whatever the query wants.

    Attributes:
        services: the wanted ones, in order.
        matching: how many there are without offset and limit.
        known: how many Services opt in.
        phases: how many of them are in each phase; without a phase under the empty text.
        problems: how many of them have a problem.
        load: their requests in flight or queued.
    """

    services: list[tuple[ServiceName, Record]]
    matching: int
    known: int
    phases: Mapping[str, int]
    problems: int
    load: float


def parse(params: Mapping[str, str]) -> Query:
    """Return the query of a request.

    Arguments:
        params: the parameters of the address.

    Raises:
        ValueError: a value is not allowed; the text is for people.
    """
    words = {sort.value: sort for sort in Sort}
    sort = words.get(params.get("sort", Sort.NAME.value))
    if sort is None:
        raise ValueError(f"sort must be one of {', '.join(words)}.")
    show = params.get("show", "")
    if show not in ("", "problems"):
        raise ValueError("show must be problems, or absent.")
    return Query(
        params.get("namespace", ""),
        tuple(params.get("filter", "").lower().split()),
        show == "problems",
        sort,
        _number(params, "offset") or 0,
        _number(params, "limit"),
    )


def _number(params: Mapping[str, str], name: str) -> int | None:
    text = params.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        raise ValueError(f"{name} must be a number from 0, as in ?{name}=100.")
    return int(text)


def select(
    records: Iterable[tuple[ServiceName, Record]], loads: Loads, query: Query, now: float
) -> Selection:
    """Return the Services that a query wants, and sums over all.

    Arguments:
        now: seconds, on the clock of the loads.
    """
    every = sorted(records, key=lambda pair: pair[0])
    load = {name: loads.current(name, now) for name, _ in every}
    found = [pair for pair in every if _is_wanted(*pair, query)]
    key = _KEYS[query.sort]
    found.sort(key=lambda pair: key(pair[1], load[pair[0]]))
    end = None if query.limit is None else query.offset + query.limit
    return Selection(
        found[query.offset : end],
        len(found),
        len(every),
        Counter(_phase(record) for _, record in every),
        sum(has_problem(record) for _, record in every),
        sum(load.values()),
    )


def has_problem(record: Record) -> bool:
    """Return whether a Service is not as its annotations ask for, in a way that is not normal."""
    facts = record.facts
    return bool(facts.findings or facts.service.warnings) or _reason(record) not in reasons.QUIET


def _is_wanted(name: ServiceName, record: Record, query: Query) -> bool:
    if query.namespace not in ("", name.namespace):
        return False
    if query.problems and not has_problem(record):
        return False
    if not query.words:
        return True
    facts, asks = record.facts, record.facts.service.asks
    target = f"{facts.target.resource.kind}/{facts.target.name}" if facts.target else ""
    texts = (f"{name.namespace}/{name.name}", target, asks.owner.value, asks.route.value)
    whole = " ".join((*texts, _phase(record), _reason(record))).lower()
    whole += " ".join(finding.reason.value for finding in facts.findings)
    return all(word in whole for word in query.words)


def _reason(record: Record) -> str:
    return record.decided.reason if record.decided is not None else record.facts.reason


def _phase(record: Record) -> str:
    return "" if record.plan is None else record.plan.phase.value


#: The order of phases after the Services with a problem.
_PLACES: Final = {
    WorkloadPhase.STARTING.value: 1,
    WorkloadPhase.CLOSING.value: 2,
    WorkloadPhase.AWAKE.value: 3,
}


_KEYS: Final[Mapping[Sort, Callable[[Record, float], float]]] = {
    Sort.NAME: lambda record, load: 0,  # they are sorted by name already
    Sort.ATTENTION: lambda record, load: (
        0 if has_problem(record) else _PLACES.get(_phase(record), 4)
    ),
    Sort.REPLICAS: lambda record, load: -(record.facts.replicas or 0),
    Sort.LOAD: lambda record, load: -load,
    Sort.CHANGE: lambda record, load: (
        -(record.workload.change.at.timestamp() if record.workload.change else 0.0)
    ),
}
