"""How long a reflector pauses, and when a waiting request shortens that; in virtual time."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from activator.discovery.backoff import PIECE, Backoff, Pause, Pauses, Timings, Turns, hurried
from tests.conftest import VirtualLoop


def test_pauses_double_with_up_to_as_much_again_and_stay_below_the_limit() -> None:
    backoff, now, bases = Backoff(Timings()), 0.0, [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30, 30]
    for base in bases:
        pause = backoff.pause(now)
        assert base <= pause <= min(2 * base, 30)
        now += pause


def test_pauses_start_from_the_first_after_a_healthy_time_only() -> None:
    backoff = Backoff(Timings())
    first = backoff.pause(0.0)
    second = backoff.pause(first + 119)
    assert second >= 1.6
    assert backoff.pause(first + 119 + second + 121) <= 1.6


def test_a_free_first_failure_costs_nothing_and_the_next_one_does() -> None:
    backoff = Backoff(Timings())
    assert backoff.pause(0.0, first_is_free=True) == 0
    assert backoff.pause(1.0, first_is_free=True) >= 1.6


@pytest.mark.parametrize(
    ("pause", "lasted", "least", "most"),
    [
        (Pause(0.5), 0.0, 0.5, 0.5),  # shorter than the limit
        (Pause(30.0), 0.0, 1.0, 2.0),
        (Pause(30.0), 0.5, 0.5, 1.5),
        (Pause(30.0), 10.0, 0.0, 0.2),  # over by now: at once, but with jitter
        (Pause(30.0), 29.9, 0.0, 0.11),
        (Pause(17.0, minimum=17.0), 5.0, 12.0, 12.0),
        (Pause(30.0, minimum=3.0), 0.0, 3.0, 3.0),
    ],
)
def test_what_is_left_of_a_pause_once_requests_wait(
    pause: Pause, lasted: float, least: float, most: float
) -> None:
    left = [hurried(pause, lasted, Timings()) for _ in range(50)]
    assert least - 1e-9 <= min(left) <= max(left) <= most + 1e-9
    assert len(set(left)) > 1 or least == most


TIMINGS = Timings()


async def slept(pauses: Pauses, pause: Pause, *hurries: float) -> float:
    """Return the seconds of a pause; at the times of ``hurries`` a request begins to wait."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    for at in hurries:
        loop.call_at(began + at, pauses.hurry)
    await pauses.wait(pause)
    return loop.time() - began


async def test_a_pause_is_shortened_once_and_never_below_its_minimum() -> None:
    pauses = Pauses(TIMINGS, lambda: False)
    pauses.hurry()  # no pause is in progress
    assert round(await slept(pauses, Pause(30.0)), 6) == 30
    assert await slept(pauses, Pause(30.0), 20.0, 20.001) <= 20 + TIMINGS.backoff_spread
    assert round(await slept(pauses, Pause(30.0, minimum=25.0), 1.0), 6) >= 25
    assert await slept(pauses, Pause(0.0)) == 0


async def test_a_request_may_begin_to_wait_in_the_turn_of_the_loop_that_ends_a_pause() -> None:
    pauses, loop = Pauses(TIMINGS, lambda: False), asyncio.get_running_loop()
    errors: list[object] = []
    loop.set_exception_handler(lambda _, context: errors.append(context))
    loop.call_later(30.0, lambda: loop.call_soon(pauses.hurry))
    assert round(await slept(pauses, Pause(30.0)), 6) == 30
    assert not errors


async def test_pauses_after_failures_are_short_while_requests_wait() -> None:
    for waits, at_most in ((False, TIMINGS.backoff_limit), (True, TIMINGS.backoff_waiting)):
        pauses = Pauses(TIMINGS, partial(bool, waits))
        longest = max(pauses.after_failure() for _ in range(9))
        assert at_most / 2 <= longest <= at_most
    assert Pauses(TIMINGS, lambda: False).after_failure(first_is_free=True) == 0


async def test_a_request_that_arrives_in_long_work_waits_for_one_piece_of_it() -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    pieces, begun = 0, asyncio.Event()

    async def work() -> None:
        nonlocal pieces
        turns = Turns()
        while True:
            loop.virtual_now += PIECE
            pieces += 1
            begun.set()
            await turns.pause()

    async def request() -> None:
        for _ in range(6):  # connection, head, pod, response
            await asyncio.sleep(0)

    working = asyncio.ensure_future(work())
    await begun.wait()
    await request()
    working.cancel()
    assert pieces == 2
