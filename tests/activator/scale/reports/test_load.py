"""The load of a Service over several activators, through lost reports and connections."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from activator.scale.reports.load import (
    LOST_COUNTS,
    MOST_ACTIVATORS,
    MOST_CHARACTERS,
    MOST_UNKNOWN,
    REPORT_COUNTS,
    UNKNOWN_STAYS,
    Loads,
    Report,
    ReportingActivator,
    ServiceName,
)

HELLO, OTHER = ServiceName("shop", "hello"), ServiceName("shop", "other")


def report(concurrency: float, requests: float = 0) -> list[Report]:
    return [Report(HELLO, concurrency, requests)]


def by_activator(loads: Loads) -> Mapping[str, float]:
    known = loads.of(HELLO)
    assert known is not None
    return known.by_activator()


def test_a_service_without_reports_has_no_load() -> None:
    loads = Loads()
    assert loads.of(HELLO) is None
    assert loads.current(HELLO, 0) == 0


def test_the_reports_of_several_activators_add_up() -> None:
    loads = Loads()
    for number, name in enumerate("ab"):
        loads.connected(number)
        assert loads.record(number, name, report(1.5, 2), 10) == [HELLO]
    assert loads.current(HELLO, 10) == 3
    assert loads.current(OTHER, 10) == 0
    load = loads.of(HELLO)
    assert load is not None
    assert load.window.averages(10) == (3, 3)
    assert load.last_busy == 10


def test_a_report_of_zeros_is_no_request() -> None:
    loads = Loads()
    loads.connected(1)
    loads.record(1, "a", report(1), 10)
    assert loads.record(1, "a", report(0), 11) == []
    load = loads.of(HELLO)
    assert load is not None
    assert load.last_busy == 10


def test_requests_that_were_too_short_for_a_load_are_requests() -> None:
    loads = Loads()
    loads.connected(1)
    assert loads.record(1, "a", report(0, 5), 10) == [HELLO]


def test_the_first_report_after_an_announcement_does_not_end_the_request() -> None:
    """The announcement says 1, and the next report leaves it out: 0 of one waiting request."""
    loads = Loads()
    loads.connected(1)
    loads.record(1, "a", report(1, 1), 10.0)
    loads.record(1, "a", report(0, 0), 10.9)
    assert loads.current(HELLO, 10.9) == 1
    loads.record(1, "a", report(0, 0), 11.9)
    assert loads.current(HELLO, 11.9) == 0


def test_silence_is_the_end_of_all_requests() -> None:
    loads = Loads()
    loads.connected(1)
    loads.record(1, "a", report(4), 10)
    assert loads.current(HELLO, 10 + REPORT_COUNTS) == 4
    assert loads.current(HELLO, 10.1 + REPORT_COUNTS) == 0


def test_an_old_peak_does_not_count_after_silence() -> None:
    loads = Loads()
    loads.connected(1)
    loads.record(1, "a", report(9), 10)
    loads.record(1, "a", report(1), 20)
    assert loads.current(HELLO, 20) == 1


def test_the_last_report_of_a_lost_connection_counts_for_a_while() -> None:
    loads = Loads()
    loads.connected(1)
    loads.record(1, "a", report(4), 10)
    loads.disconnected(1, 10)
    assert loads.current(HELLO, 10 + LOST_COUNTS) == 4
    assert not loads.is_known(10 + LOST_COUNTS)
    assert loads.current(HELLO, 11 + LOST_COUNTS) == 0


def test_a_connection_that_replaces_another_does_not_count_twice() -> None:
    loads = Loads()
    loads.connected(1)
    loads.record(1, "a", report(4), 10)
    loads.disconnected(1, 10)
    loads.connected(2)
    loads.record(2, "a", report(3), 11)
    assert loads.current(HELLO, 11) == 4  # the larger of the last two reports
    assert loads.current(HELLO, 12 + REPORT_COUNTS) == 0


def test_a_second_connection_of_an_activator_keeps_it_connected() -> None:
    loads = Loads()
    for connection in (1, 2):
        loads.connected(connection)
        loads.record(connection, "a", report(1), 10)
    loads.disconnected(1, 11)
    assert loads.is_known(11)


@pytest.mark.parametrize(("after", "known"), [(0, False), (LOST_COUNTS + 1, True)])
def test_the_load_is_unknown_while_an_activator_is_lost(after: float, known: bool) -> None:
    loads = Loads()
    assert not loads.is_known(0)
    for connection in (1, 2):
        loads.connected(connection)
        loads.record(connection, f"activator-{connection}", report(1), 10)
    assert loads.is_known(10)
    loads.disconnected(1, 20)
    assert loads.is_known(20 + after) is known
    loads.disconnected(2, 100)
    assert not loads.is_known(1000)
    assert loads.activators == 0


def test_an_idle_connection_that_ends_leaves_nothing_unknown() -> None:
    loads = Loads()
    for connection in (1, 2):
        loads.connected(connection)
    loads.disconnected(1, 10)
    assert loads.is_known(10)


def test_a_deleted_service_has_no_load() -> None:
    loads = Loads()
    loads.connected(1)
    loads.record(1, "a", report(4), 10)
    loads.remove(HELLO)
    loads.remove(HELLO)
    assert loads.current(HELLO, 10) == 0


def test_who_reports_is_known_with_its_times() -> None:
    loads = Loads()
    loads.connected(1, 10, "10.0.0.7")
    loads.connected(2, 11, "10.0.0.8")
    loads.record(2, "b", report(1), 12)
    assert loads.reporting() == [
        ReportingActivator("", "10.0.0.7", 10, None, None),
        ReportingActivator("b", "10.0.0.8", 11, 12, None),
    ]
    loads.disconnected(2, 13)
    assert loads.reporting()[1] == ReportingActivator("b", "", None, None, 13)


def test_loads_of_unknown_services_are_bounded_and_harm_no_known_one() -> None:
    loads = Loads(lambda name: name == HELLO)
    loads.connected(1)
    names = [ServiceName("shop", f"invented-{number}") for number in range(3 * MOST_UNKNOWN)]
    names.insert(0, ServiceName("shop", (MOST_CHARACTERS + 1) * "x"))
    busy = loads.record(1, "a", [Report(name, 1.0, 1) for name in [*names, HELLO]], 10)
    assert busy == [*names[1 : MOST_UNKNOWN + 1], HELLO]
    assert loads.current(HELLO, 10) == 1
    assert loads.current(names[-1], 10) == 0
    loads.prune(11 + UNKNOWN_STAYS)
    assert loads.of(names[1]) is None
    assert loads.of(HELLO) is not None
    assert loads.record(1, "a", [Report(names[-1], 1.0, 1)], 80) == [names[-1]]


def test_a_service_that_comes_after_its_load_keeps_it() -> None:
    known: set[ServiceName] = set()
    loads = Loads(known.__contains__)
    loads.connected(1)
    loads.record(1, "a", report(3), 10)
    known.add(HELLO)
    loads.prune(11 + UNKNOWN_STAYS)
    assert loads.of(HELLO) is not None


def test_a_connection_has_one_name_whatever_it_reports() -> None:
    loads = Loads()
    loads.connected(1)
    for number in range(10):
        loads.record(1, f"pod-{number}", report(4), 10 + number)
    assert by_activator(loads) == {"pod-0": 4}


def test_activators_that_come_and_go_are_bounded() -> None:
    loads = Loads()
    for number in range(MOST_ACTIVATORS + 10):
        loads.connected(number)
        loads.record(number, f"pod-{number}", report(1), 10)
        loads.disconnected(number, 10)
    assert len(by_activator(loads)) == MOST_ACTIVATORS


@pytest.mark.parametrize(
    ("reports", "mean"),
    [
        pytest.param([(10.2, 12), (10.2, 12), (11.0, 12)], 12, id="a backlog in one second"),
        pytest.param([(10.2, 1), (10.3, 0), (11.3, 1)], 1, id="an announcement, then its report"),
        pytest.param([(10.001, 12), (10.999, 12), (12.001, 12)], 12, id="early and late reports"),
    ],
)
def test_reports_of_one_activator_at_once_do_not_add_up(
    reports: list[tuple[float, float]], mean: float
) -> None:
    loads = Loads()
    loads.connected(1)
    for at, concurrency in reports:
        loads.record(1, "a", report(concurrency), at)
    load = loads.of(HELLO)
    assert load is not None
    assert load.window.averages(int(reports[-1][0]))[0] == mean
