"""The clients that keep a revision awake."""

from __future__ import annotations

import pytest

from activator.records.entries import MOST_NAMES, SAMPLE_WINDOW, Agents, client_name
from tests.rows import in_one_test


def visited(*visits: tuple[bytes, float, float], until: float = SAMPLE_WINDOW) -> Agents:
    """Return a sample; each client has its name, its period in seconds, and its first request."""
    agents = Agents()
    times = [
        (first + number * period, name)
        for name, period, first in visits
        for number in range(int((until - first) // period) + 1)
    ]
    for when, name in sorted(times):
        if when >= agents.sample_from:
            agents.record(name, when)
    return agents


@pytest.mark.parametrize("minutes", [1, 3, 4.9, 5, 7, 12])
def test_a_monitor_has_its_rate_at_any_time(minutes: float) -> None:
    until = 60 * minutes
    agents = visited((b"Prometheus/3.5.0", 5.0, 0.0), (b"kube-probe/1.33", 20.0, 1.0), until=until)
    (first, rate), (second, other) = agents.keep_awake(until)
    assert (first, second) == ("Prometheus", "kube-probe")
    assert rate in (12, 13)
    assert other in (3, 4)


def test_once_a_minute_keeps_awake_and_every_two_minutes_does_not() -> None:
    agents = visited((b"a", 60.0, 0.0), (b"b", 120.0, 1.0), until=700.0)
    assert agents.keep_awake(700.0) == [("a", 1)]


def test_two_requests_are_none_and_a_client_that_stopped_is_none() -> None:
    agents = Agents()
    for number in range(3):
        assert agents.keep_awake(number) == []
        agents.record(b"a", number)
    assert agents.keep_awake(3.0) == [("a", 3)]
    assert agents.keep_awake(123.0) == []
    assert agents.keep_awake(10_000.0) == []
    agents.record(b"a", 10_000.0)
    assert agents.keep_awake(10_000.0) == []


def test_a_revision_in_use_names_none_and_its_sample_ends() -> None:
    agents = visited((b"curl/8", 0.1, 0.0), until=100.0)
    assert agents.sample_from == SAMPLE_WINDOW
    assert agents.keep_awake(100.0) == []
    assert agents.keep_awake(SAMPLE_WINDOW + 10) == []
    agents = visited((b"curl/8", 0.1, 0.0), (b"a", 10.0, 400.0), until=399.9)
    for number in range(60):
        agents.record(b"a", 600.0 + 10 * number)
    assert agents.keep_awake(1195.0) == [("a", 6)]


def test_invented_names_take_bounded_memory() -> None:
    agents = Agents()
    for number in range(7 * 40):  # each name more than once a minute
        agents.record(b"%d/1" % (number % 40), number)
    assert [name for name, _ in agents.keep_awake(280.0)] == sorted(map(str, range(MOST_NAMES)))


def test_requests_beside_others_pause_the_sample() -> None:
    agents = Agents()
    agents.pause(5.0)
    assert 5.0 < agents.sample_from <= 6.0


@in_one_test(
    ("user_agent", "name"),
    [
        (b"Prometheus/3.5.0", "Prometheus"),
        (b"kube-probe/1.33", "kube-probe"),
        (b"GoogleHC/1.0", "GoogleHC"),
        (b"ELB-HealthChecker/2.0", "ELB-HealthChecker"),
        (b"Mozilla/5.0+(compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)", "UptimeRobot"),
        (b"Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)", "bingbot"),
        (b"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/140 Safari", "a browser"),
        (b"", "no User-Agent"),
        (b"/1.0", "no User-Agent"),
        (b"<img src=x>", "<img"),
        (b"\x1b[31m\xff/1", "?[31m?"),
        (60_000 * b"a", 40 * "a"),
        (60_000 * b"compatible; ", "compatible"),
    ],
)
def test_a_client_has_the_name_of_its_product(user_agent: bytes, name: str) -> None:
    assert client_name(user_agent) == name
