"""How long a request would wait: how the throttler learns it, and which requests it refuses."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.throttler.world import One, addresses, unhurried
from throttler.errors import WaitTooLong
from throttler.forecast import SAME_START, STARTS, TURNOVERS, RecentMedian, retry_after
from throttler.ticket import ASSIGNED, QUEUED, REJECTED, Ticket

A, B = addresses(2)


class Shop(One):
    """A revision whose requests take a fixed time each, in virtual time."""

    def __init__(self, places: int, seconds: float, *, pods: int = 1, shed_early: bool = False):
        super().__init__(places, depth=100_000, shed_early=shed_early)
        self.seconds = seconds
        self.running: list[tuple[float, Ticket]] = []
        if pods:
            self.healthy(addresses(pods))

    def come(self, timeout: float = 60.0) -> Ticket:
        """Admit a request; it is refused, waits, or is in flight."""
        self.now += 1e-6
        ticket = self.tickets.make(self.now + timeout)
        try:
            if self.throttler.admit(ticket, self.now) is not None:
                self._run(ticket)
        except WaitTooLong:
            assert ticket.state is REJECTED
        return ticket

    def _run(self, ticket: Ticket) -> None:
        self.running.append((self.now + self.seconds, ticket))

    def end_next(self) -> None:
        """End the oldest request in flight, at its time."""
        at, ticket = min(self.running, key=lambda entry: entry[0])
        self.running.remove((at, ticket))
        self.now = max(self.now, at)
        for follower in self.release(ticket):
            self._run(follower)

    def wake_up(self, seconds: float) -> None:
        """Sleep until a pod is listed, that long after the first request."""
        self.set_endpoints([])
        self.now += 1000.0
        ticket = self.request()
        self.now = ticket.arrived + seconds
        self.healthy([A])
        self.release(ticket)

    def wait(self) -> float | None:
        return self.throttler.expected_wait(self.now)


#: Events that take a pod away for a moment.
LOSSES: dict[str, Callable[[Shop], object]] = {
    "given-back": lambda one: one.throttler.responded_badly(
        one.pod(A), "502", one.now, untouched=True
    ),
    "refused": lambda one: one.throttler.connect_failed(one.pod(A), "refused", one.now),
    "failed": lambda one: one.failed(one.pod(A)),
}


class TestRecent:
    def test_of_nothing_nothing_is_known(self) -> None:
        assert RecentMedian(5).median is None

    def test_it_is_the_lower_median_of_the_last_few(self) -> None:
        recent, seen = RecentMedian(3), []
        for value in (9.0, 1.0, 5.0, 5.0, 7.0, 7.0):
            recent.add(value)
            seen.append(recent.median)
        assert seen == [9.0, 1.0, 5.0, 5.0, 5.0, 7.0]

    @given(st.lists(st.floats(0, 1e6), max_size=40))
    def test_it_agrees_with_a_plain_list(self, values: list[float]) -> None:
        recent = RecentMedian(15)
        for value in values:
            recent.add(value)
        kept = sorted(values[-15:])
        assert recent.median == (kept[(len(kept) - 1) // 2] if kept else None)


class TestStart:
    def test_it_is_the_time_from_the_first_request_to_the_first_pod(self) -> None:
        one = Shop(1, 1.0, pods=0)
        one.wake_up(4.0)
        assert one.throttler.forecast.starts.median == pytest.approx(4.0)

    def test_one_slow_pull_of_an_image_is_not_what_the_next_start_costs(self) -> None:
        one = Shop(1, 1.0, pods=0)
        for seconds in (2.0, 2.1, 90.0):
            one.wake_up(seconds)
        assert one.throttler.forecast.starts.median == pytest.approx(2.1)

    def test_a_client_that_gives_up_and_one_that_comes_after_it_wait_for_the_same_start(
        self,
    ) -> None:
        one = Shop(1, 1.0, pods=0)
        began = one.request()
        one.throttler.cancel(began, one.now)
        one.now += 2.0
        one.request()
        one.now = began.arrived + 5.0
        one.healthy([A])
        assert one.throttler.forecast.starts.median == pytest.approx(5.0)

    def test_after_a_minute_without_requests_it_is_another_start(self) -> None:
        one = Shop(1, 1.0, pods=0)
        one.throttler.cancel(one.request(), one.now)
        one.now += SAME_START + 1.0
        again = one.request()
        one.now = again.arrived + 3.0
        one.healthy([A])
        assert one.throttler.forecast.starts.median == pytest.approx(3.0)

    @pytest.mark.parametrize("after", [SAME_START + 15.0, 3 * 3600.0])
    def test_a_pod_long_after_the_last_has_left_has_nothing_to_do_with_them(
        self, after: float
    ) -> None:
        one = Shop(1, 1.0, pods=0)
        one.throttler.cancel(one.request(), one.now)
        one.now += after
        one.healthy([A])
        assert one.throttler.forecast.starts.median is None
        one.wake_up(3.0)
        assert one.throttler.forecast.starts.median == pytest.approx(3.0)

    def test_one_whose_client_has_just_left_is_what_it_called_for(self) -> None:
        one = Shop(1, 1.0, pods=0)
        ticket = one.request(timeout=100.0)
        one.now = ticket.deadline
        one.throttler.expire(ticket)
        one.now += 10.0
        one.healthy([A])
        assert one.throttler.forecast.starts.median == pytest.approx(110.0)

    def test_a_start_continues_while_clients_without_a_request_are_expected_back(self) -> None:
        one = Shop(1, 1.0, pods=0)
        one.throttler.cancel(one.request(), one.now)
        for _ in range(4):
            one.now += SAME_START - 1.0
            one.throttler.queue.forecast.clients_return(one.now)
        one.healthy([A])
        assert one.throttler.forecast.starts.median == pytest.approx(4 * (SAME_START - 1.0))
        one.throttler.queue.forecast.clients_return(one.now)  # no start is in progress
        assert one.throttler.expected_wait(one.now) is not None

    def test_who_waits_has_called_for_it_however_long_it_takes(self) -> None:
        one = Shop(1, 1.0, pods=0)
        one.throttler.cancel(one.request(), one.now)
        one.now += 10.0
        one.request(timeout=500.0)
        one.now += 200.0
        one.healthy([A])
        assert one.throttler.forecast.starts.median == pytest.approx(210.0, abs=0.1)

    def test_a_pod_without_waiting_requests_is_not_expected(self) -> None:
        one = Shop(1, 1.0, pods=0)
        one.wake_up(4.0)
        one.set_endpoints([])
        one.throttler.cancel(one.request(), one.now)
        one.now += 3600.0
        assert one.wait() == pytest.approx(4.0)

    def test_a_pod_that_ends_with_a_request_is_none_that_could_be_used(self) -> None:
        one = Shop(1, 1.0)
        one.come()
        one.set_endpoints([])
        ticket = one.request()
        one.now += 5.0
        one.healthy([B])
        assert ticket.pod is not None
        assert one.throttler.forecast.starts.median == pytest.approx(5.0)

    def test_a_pod_that_is_back_in_a_moment_was_no_start(self) -> None:
        one = Shop(1, 1.0)
        one.throttler.connect_failed(one.pod(A), "refused", one.now)
        one.request()
        one.now += 0.005
        one.passed(one.pod(A))
        assert one.throttler.forecast.starts.median is None

    def test_what_is_left_of_it_is_expected_and_nothing_is_promised_once_it_is_late(self) -> None:
        one = Shop(1, 1.0, pods=0)
        one.wake_up(10.0)
        one.set_endpoints([])
        assert one.wait() == pytest.approx(10.0)
        began = one.request().arrived
        one.now = began + 4.0
        assert one.wait() == pytest.approx(6.0)
        for late in (0.1, 3.0, 40.0):
            one.now = began + 10.0 + late
            assert one.wait() is None
            retry = one.throttler.retry_after(one.now)
            assert late * 0.8 <= retry <= late * 1.2 + 1, "clients look again ever more seldom"

    def test_the_progress_of_a_pod_that_started_by_itself_is_unknown(self) -> None:
        one = Shop(1, 1.0, pods=0)
        one.wake_up(10.0)
        one.set_endpoints([])
        one.set_endpoints([], [B])
        assert one.throttler.queue.awaits_start
        assert one.wait() is None

    def test_behind_more_than_one_pod_takes_the_queue_counts_too(self) -> None:
        one = Shop(2, 3.0)
        for _ in range(8):
            one.come()
        while one.running:
            one.end_next()
        one.wake_up(10.0)
        one.set_endpoints([])
        began = one.request().arrived
        waits = [one.wait()]
        for _ in range(4):
            one.request()
            waits.append(one.wait())
        left = 10.0 - (one.now - began)
        assert waits == pytest.approx([left, left + 1.5, left + 3.0, left + 4.5, left + 6.0], 0.01)


class TestTurnover:
    @pytest.mark.untraced
    @pytest.mark.parametrize("places", [1, 3, 100])
    @pytest.mark.parametrize("together", [True, False])
    def test_a_queue_of_so_many_lasts_as_long_as_it_says(self, places: int, together: bool) -> None:
        """Also where requests end all at once, or one after the other."""
        one = Shop(places, 2.0)
        for _ in range(places):
            one.come()
            one.now += 0.0 if together else 2.0 / places
        for _ in range(20 * places):
            one.come()
        for _ in range(10 * places):
            one.end_next()
        expected = one.wait()
        assert expected == pytest.approx(2.0 * (10 * places + 1) / places, rel=0.11)
        last = one.come()
        came = one.now
        while last.state is QUEUED:
            one.end_next()
        assert one.now - came == pytest.approx(expected, rel=0.2)

    def test_it_follows_the_number_of_pods_at_once(self) -> None:
        one = Shop(2, 2.0)
        for _ in range(82):
            one.come()
        for _ in range(20):
            one.end_next()
        before = one.wait()
        assert before == pytest.approx(61.0, rel=0.1)
        one.set_endpoints(addresses(10))
        for pod in list(one.throttler.backends.unhealthy()):
            changes = one.passed(pod)
            assert changes is not None
        after = one.wait()
        assert after == pytest.approx(2.0 * 43 / 20, rel=0.2)

    def test_the_time_without_a_queue_does_not_count(self) -> None:
        one = Shop(1, 1.0)
        for _ in range(30):
            one.come()
            one.come()
            one.end_next()
            one.end_next()
            one.now += 500.0
        assert one.throttler.forecast.turnovers.median == pytest.approx(1.0, 1e-3)

    def test_requests_that_hang_are_noticed_before_the_next_one_ends(self) -> None:
        one = Shop(1, 0.1)
        for _ in range(20):
            one.come()
        for _ in range(10):
            one.end_next()
        assert one.wait() == pytest.approx(0.1 * 10, rel=0.2)
        one.now += 30.0
        assert one.wait() == pytest.approx(30.0 * 10)

    def test_before_the_first_nothing_is_known(self) -> None:
        one = Shop(1, 1.0)
        one.come()
        assert one.wait() is None

    def test_who_finds_room_does_not_wait(self) -> None:
        assert Shop(1, 1.0).wait() == 0.0

    def test_without_a_limit_pods_take_whatever_comes(self) -> None:
        one = Shop(0, 1.0)
        for _ in range(200):
            one.come()
        assert one.throttler.queued.waiting
        assert one.wait() == 0.0

    def test_a_request_that_returns_to_an_empty_queue_begins_one(self) -> None:
        one = Shop(1, 1.0, pods=2)
        for _ in range(4):
            one.come()
        while one.running:
            one.end_next()
        one.now += 500.0
        back, _ = one.come(), one.come()
        assert back.pod is not None
        one.throttler.connect_failed(back.pod, "refused", one.now)
        one.throttler.requeue(back, one.now)
        assert back.state is QUEUED
        assert one.wait() == pytest.approx(2.0, rel=0.1)


class TestShedding:
    def overloaded(self, seconds: float = 10.0) -> Shop:
        """Return a revision that has learned its turnover time, with an empty queue."""
        one = Shop(2, seconds, shed_early=True)
        for _ in range(12):
            one.come(1000.0)
        while one.running:
            one.end_next()
        return one

    def test_a_request_that_would_wait_beyond_its_deadline_is_refused_at_once(self) -> None:
        one = self.overloaded()
        states = [one.come(timeout=31.0).state for _ in range(12)]
        assert states.count(REJECTED) == 12 - 2 - 6, "two run, six have a turn within 31 s"
        assert states == sorted(states, key=[*states[:3], REJECTED].index)

    def test_a_patient_one_may_wait_behind_where_another_was_refused(self) -> None:
        one = self.overloaded()
        for _ in range(12):
            one.come(timeout=31.0)
        assert one.come(timeout=31.0).state is REJECTED
        assert one.come(timeout=300.0).state is QUEUED

    def test_the_error_says_how_long(self) -> None:
        one = self.overloaded()
        for _ in range(8):
            one.come(timeout=31.0)
        with pytest.raises(WaitTooLong) as caught:
            one.request(timeout=31.0)
        assert caught.value.expected == pytest.approx(35.0, rel=0.05)

    def test_unless_configured_no_request_is_refused(self) -> None:
        one = self.overloaded()
        one.throttler.queue.shed_early = False
        assert all(one.come(timeout=1.0).state is not REJECTED for _ in range(50))

    def test_while_nothing_is_known_no_request_is_refused(self) -> None:
        one = Shop(1, 100.0, shed_early=True)
        assert all(one.come(timeout=0.5).state is not REJECTED for _ in range(50))

    def test_as_many_as_run_may_wait_whatever_is_expected(self) -> None:
        one = self.overloaded(seconds=500.0)
        states = [one.come(timeout=1.0).state for _ in range(6)]
        assert states[2:] == [QUEUED, QUEUED, REJECTED, REJECTED]

    def test_the_first_may_wait_for_a_start_that_takes_too_long(self) -> None:
        one = Shop(1, 1.0, pods=0, shed_early=True)
        one.wake_up(100.0)
        one.set_endpoints([])
        first = one.come(timeout=50.0)
        assert (first.state, one.come(timeout=50.0).state) == (QUEUED, REJECTED)
        one.now += 80.0
        assert one.come(timeout=50.0).state is QUEUED, "the start is nearly done"

    @pytest.mark.parametrize("places", [0, 1, 100])
    @pytest.mark.parametrize("event", LOSSES)
    def test_a_pod_that_is_lost_for_a_moment_is_no_start(self, event: str, places: int) -> None:
        one = Shop(places, 1.0, pods=0, shed_early=True)
        one.wake_up(100.0)
        assert not one.throttler.queue.awaits_start
        LOSSES[event](one)
        assert not one.throttler.queue.awaits_start
        assert not one.throttler.capacity()
        states = [one.come(timeout=50.0).state for _ in range(30)]
        assert states == [QUEUED] * 30
        assert one.wait() is None
        one.now += 0.1
        one.passed(one.pod(A))
        assert one.come(timeout=50.0).state is not REJECTED, "half-open, perhaps"

    def test_a_half_open_pod_has_fewer_requests_than_it_may_have_soon(self) -> None:
        one = Shop(100, 1.0, shed_early=True)
        one.throttler.forecast.turnovers.add(10.0)
        LOSSES["given-back"](one)
        one.now += 1.0
        one.passed(one.pod(A))
        assert one.pod(A).ejection.half_open
        states = [one.come(timeout=15.0).state for _ in range(30)]
        assert states == [ASSIGNED] + [QUEUED] * 29

    @pytest.mark.parametrize("event", LOSSES)
    @pytest.mark.parametrize(("ready", "not_ready"), [([], []), ([], [A])])
    def test_a_lost_pod_that_kubernetes_withdraws_leaves_a_sleeper(
        self, event: str, ready: list[str], not_ready: list[str]
    ) -> None:
        one = Shop(1, 1.0, pods=0, shed_early=True)
        one.wake_up(100.0)
        LOSSES[event](one)
        one.set_endpoints(ready, not_ready)
        assert one.throttler.queue.awaits_start
        one.set_endpoints([])
        assert [one.come(timeout=50.0).state for _ in range(2)] == [QUEUED, REJECTED]

    @pytest.mark.untraced
    @unhurried
    @given(
        places=st.integers(1, 8),
        wrong=st.sampled_from([0.1, 10.0]),
        seconds=st.floats(0.1, 20.0),
        timeout=st.floats(0.05, 60.0),
    )
    def test_a_forecast_that_is_wrong_tenfold_is_right_again_after_a_few_turnovers(
        self, places: int, wrong: float, seconds: float, timeout: float
    ) -> None:
        one = Shop(places, seconds * wrong, shed_early=True)
        for _ in range((TURNOVERS + 2) * places):
            one.come(1e6)
        while one.throttler.queued.waiting:
            one.end_next()
        one.seconds = seconds
        while one.running:
            one.end_next()
        # Four turnovers at the present speed, with admitted requests alone.
        for _ in range(4 * places):
            for _ in range(places + 1):
                one.come(timeout)
            one.end_next()
        median = one.throttler.forecast.turnovers.median
        assert median == pytest.approx(seconds, rel=0.3)

    @pytest.mark.untraced
    @unhurried
    @given(st.integers(1, 8), st.floats(0.1, 20.0), st.floats(0.1, 100.0))
    def test_an_admitted_request_gets_a_slot_in_time(
        self, places: int, seconds: float, timeout: float
    ) -> None:
        """Exceptions: requests that may always wait, and requests of the present turnover."""
        one = Shop(places, seconds, shed_early=True)
        for _ in range((TURNOVERS + 2) * places):
            one.come(1e6)
        while one.throttler.queued.waiting:
            one.end_next()
        for _ in range(200):
            ticket = one.come(timeout)
            if ticket.state is QUEUED and one.throttler.queued.waiting > places:
                came = one.now
                while ticket.state is QUEUED:
                    one.end_next()
                assert one.now - came <= timeout + 2 * seconds


class TestRetryAfter:
    def test_it_is_what_is_expected_give_or_take_a_fifth(self) -> None:
        assert [retry_after(30.0, luck) for luck in (0.0, 0.5, 0.999)] == [24, 30, 36]

    def test_it_is_whole_seconds_and_never_none(self) -> None:
        assert [retry_after(expected, 0.5) for expected in (0.0, 0.01, 1.2)] == [1, 1, 2]

    def test_it_is_two_minutes_at_most(self) -> None:
        assert [retry_after(1e9, luck) for luck in (0.0, 0.999)] == [80, 120]

    def test_where_nothing_is_known_it_is_some_seconds(self) -> None:
        assert [retry_after(None, luck) for luck in (0.0, 0.5, 0.999)] == [4, 5, 6]

    @given(st.none() | st.floats(0, 1e9), st.floats(0, 1, exclude_max=True))
    def test_whatever_is_expected_it_is_within_bounds(
        self, expected: float | None, luck: float
    ) -> None:
        assert 1 <= retry_after(expected, luck) <= 120

    def test_requests_refused_together_get_different_retry_times(self) -> None:
        one = Shop(1, 1.0)
        for _ in range(70):
            one.come(1000.0)
        for _ in range(10):
            one.end_next()
        told = {one.throttler.retry_after(one.now) for _ in range(200)}
        assert 48 <= min(told) < 52
        assert 68 < max(told) <= 73


@pytest.mark.untraced
def test_what_is_remembered_is_bounded() -> None:
    one = Shop(1, 1.0, pods=0)
    for _ in range(4 * STARTS):
        one.wake_up(1.0)
        one.come()
        for _ in range(10):
            one.come()
        while one.running:
            one.end_next()
    forecast = one.throttler.forecast
    assert len(forecast.starts.values) == STARTS
    assert len(forecast.turnovers.values) == TURNOVERS
