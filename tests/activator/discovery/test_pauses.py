"""How long a reflector pauses, and when a waiting request shortens that; in virtual time."""

from __future__ import annotations

import asyncio
from functools import partial

from activator.discovery.backoff import Pause, Pauses, Timings

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
