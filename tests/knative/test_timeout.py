"""pkg/http/handler/timeout_test.go: three timers, and what a client sees when one fires.

Where Knative's cases have milliseconds these have seconds, which is what a Revision can say.
One difference throughout: after an answer has begun, Knative appends the text of its 504 to the
body and ends it as if it were whole. Ours breaks the answer off, so that the client can tell.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from tests.knative.objects import private, revision
from tests.knative.peers import Client, to, without_date
from tests.knative.pods import Pieces, ScriptedPod, after, breaks, chunked, http
from tests.knative.world import World

TEXT = b"activator request timeout"
#: As each case of TestIdleTimeoutHandler is repeated with a max duration of five minutes.
FIVE_MINUTES = [pytest.param({}, id="no max"), pytest.param({"timeoutSeconds": 300}, id="max 5m")]


async def answering(world: World, pieces: Pieces, **spec: int) -> ScriptedPod:
    """A revision whose one pod answers like this."""
    (pod,) = await world.serving(1)
    pod.pieces = pieces
    world.apply(revision(**spec), private([pod.at]))  # type: ignore[arg-type] # any of its options
    await world.passes()
    return pod


async def timed_out(world: World, after_seconds: float) -> None:
    """One request: its answer is the 504, then."""
    started = world.now()
    client = await world.call()
    answer = await client.answer()
    assert (answer.status, answer.body) == (504, TEXT)
    assert answer.get(b"content-type") == b"text/plain; charset=utf-8"
    assert answer.get(b"x-content-type-options") is None
    assert world.now() - started == pytest.approx(after_seconds, abs=0.1)
    await world.passes(30)
    assert not client.unread, "what the pod says later is not passed on"


async def broken_off(world: World, begun: bytes, after_seconds: float) -> Client:
    """One request: its answer begins, and is broken off without an end and without a text."""
    started = world.now()
    client = await world.call()
    await client.ended()
    assert world.now() - started == pytest.approx(after_seconds, abs=0.1)
    assert without_date(client.received).startswith(b"HTTP/1.1 200 ")
    assert begun in client.received
    assert TEXT not in client.received
    assert b"\r\n0\r\n" not in client.received
    return client


async def whole(world: World, body: bytes) -> None:
    answer = await world.ask()
    assert (answer.status, answer.body) == (200, body)


# TestTimeoutHandler


async def test_TestTimeoutHandler__all_good(world: World) -> None:
    """An answer in time."""
    await answering(world, after(1), timeoutSeconds=10)
    await whole(world, b"hi")


@pytest.mark.parametrize("seconds", [1, 10], ids=["short", "custom timeout message"])
async def test_TestTimeoutHandler__timeout(world: World, seconds: int) -> None:
    """The max duration passes without an answer: 504."""
    await answering(world, after(20), timeoutSeconds=seconds)
    await timed_out(world, seconds)


async def test_TestTimeoutHandler__propagate_panic(world: World) -> None:
    """What fails behind us before the time is up is told as what it is: a 502 for a broken pod."""
    await answering(world, [(0.5, breaks)], timeoutSeconds=10)
    answer = await world.ask(to(method=b"POST", body=b"x"), b"POST")
    assert answer.status == 502


async def test_TestTimeoutHandler__timeout_before_panic(world: World) -> None:
    """The time is up first: the 504 is all that the client gets."""
    await answering(world, [(5, breaks)], timeoutSeconds=1)
    await timed_out(world, 1)


# TestTryTimeoutAndWriteErrorBehavior


async def test_TestTryTimeoutAndWriteErrorBehavior__not_started(world: World) -> None:
    """No byte has been written: 504 and the text."""
    await answering(world, after(20), timeoutSeconds=2)
    await timed_out(world, 2)


async def test_TestTryTimeoutAndWriteErrorBehavior__started(world: World) -> None:
    """The answer has begun: its status stays, and it is broken off.

    Knative's case asserts ``partial response`` with the text behind it and a clean end; a client
    could not tell that from a whole answer.
    """
    await answering(world, chunked((0, b"partial response"), ends=20), timeoutSeconds=2)
    await broken_off(world, b"partial response", 2)


@pytest.mark.parametrize("length", [16, 30, 1000])
async def test_TestTryTimeoutAndWriteErrorBehavior__started_with_length(
    world: World, length: int
) -> None:
    """The same with Content-Length, of which less, about, or much more than the text is owed."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length
    await answering(world, [(0, head + b"partial"), (20, b"")], timeoutSeconds=2)
    client = await broken_off(world, b"partial", 2)
    assert client.received.endswith(b"\r\n\r\npartial")


# TestTimeToResponseStartTimeoutHandler


async def test_TestTimeToResponseStartTimeoutHandler__all_good(world: World) -> None:
    """The answer begins in time."""
    await answering(world, after(1), responseStartTimeoutSeconds=5)
    await whole(world, b"hi")


@pytest.mark.parametrize("seconds", [1, 7])
async def test_TestTimeToResponseStartTimeoutHandler__timeout(world: World, seconds: int) -> None:
    """It does not: 504, before the max duration."""
    await answering(world, after(20), responseStartTimeoutSeconds=seconds)
    await timed_out(world, seconds)


async def test_TestTimeToResponseStartTimeoutHandler__propagate_panic(world: World) -> None:
    """A pod that breaks in time is a 502."""
    await answering(world, [(0.5, breaks)], responseStartTimeoutSeconds=5)
    assert (await world.ask(to(method=b"POST", body=b"x"), b"POST")).status == 502


async def test_TestTimeToResponseStartTimeoutHandler__timeout_before_panic(world: World) -> None:
    """A pod that breaks later is no news."""
    await answering(world, [(5, breaks)], responseStartTimeoutSeconds=1)
    await timed_out(world, 1)


async def test_TestResponseStartTimeoutAfterResponseStarted(world: World) -> None:
    """An answer that began in time survives the expiry and comes whole."""
    pieces = chunked((0.5, b"foo"), (5, b"bar"), (20, b"baz"))
    await answering(world, pieces, responseStartTimeoutSeconds=1, timeoutSeconds=30)
    await whole(world, b"foobarbaz")


async def test_TestTimeoutWriterAllowsForAdditionalWritesBeforeTimeout(world: World) -> None:
    """After a write neither response-start nor idle fires, as long as more follows in time."""
    pieces = chunked((0.5, b"a"), (1.4, b"b"), (2.3, b"c"))
    await answering(world, pieces, responseStartTimeoutSeconds=1, idleTimeoutSeconds=1)
    await whole(world, b"abc")


async def test_TestTimeoutWriterErrorsWriteAfterTimeout(world: World) -> None:
    """What is written after the expiry does not reach the client, and the pod is told: its
    connection ends."""
    pod = await answering(world, chunked((0, b"foo"), (5, b"late")), timeoutSeconds=2)
    await broken_off(world, b"foo", 2)
    (connection,) = [each for each in pod.connections if each.requests[-1] in pod.traffic]
    await world.passes(0.1)
    assert connection.closed


# TestIdleTimeoutHandler


@pytest.mark.parametrize("spec", FIVE_MINUTES)
async def test_TestIdleTimeoutHandler__all_good(world: World, spec: dict[str, int]) -> None:
    """An answer in time."""
    await answering(world, after(0.5), idleTimeoutSeconds=1, **spec)
    await whole(world, b"hi")


@pytest.mark.parametrize("spec", FIVE_MINUTES)
async def test_TestIdleTimeoutHandler__timeout(world: World, spec: dict[str, int]) -> None:
    """No byte for the idle time, and none before: 504."""
    await answering(world, after(20), idleTimeoutSeconds=1, **spec)
    await timed_out(world, 1)


@pytest.mark.parametrize("spec", FIVE_MINUTES)
async def test_TestIdleTimeoutHandler__propagate_panic(world: World, spec: dict[str, int]) -> None:
    """A pod that breaks in time is a 502."""
    await answering(world, [(0.5, breaks)], idleTimeoutSeconds=1, **spec)
    assert (await world.ask(to(method=b"POST", body=b"x"), b"POST")).status == 502


@pytest.mark.parametrize("spec", FIVE_MINUTES)
async def test_TestIdleTimeoutHandler__timeout_before_panic(
    world: World, spec: dict[str, int]
) -> None:
    """A pod that breaks later is no news."""
    await answering(world, [(5, breaks)], idleTimeoutSeconds=1, **spec)
    await timed_out(world, 1)


@pytest.mark.parametrize("spec", FIVE_MINUTES)
async def test_TestIdleTimeoutHandler__successful_writes_prevent_timeout(
    world: World, spec: dict[str, int]
) -> None:
    """Pieces 0.99 s apart under an idle time of 1 s: all of them arrive."""
    pieces = chunked((0, b"foo"), (0.99, b"bar"), (1.98, b"baz"), (2.97, b"test"))
    await answering(world, pieces, idleTimeoutSeconds=1, **spec)
    await whole(world, b"foobarbaztest")


@pytest.mark.parametrize("spec", FIVE_MINUTES)
async def test_TestIdleTimeoutHandler__can_still_timeout_after_a_successful_write(
    world: World, spec: dict[str, int]
) -> None:
    """A piece, then silence: broken off. (Knative: 200, ``foo`` and the text.)"""
    await answering(world, chunked((0, b"foo"), ends=20), idleTimeoutSeconds=1, **spec)
    await broken_off(world, b"foo", 1)


@pytest.mark.parametrize("spec", FIVE_MINUTES)
async def test_TestIdleTimeoutHandler__no_idle_timeout(world: World, spec: dict[str, int]) -> None:
    """0 turns it off."""
    await answering(world, chunked((0, b"foo"), (60, b"bar")), idleTimeoutSeconds=0, **spec)
    await whole(world, b"foobar")


async def test_TestIdleTimeoutHandler__waiting_for_a_pod_is_not_idle(world: World) -> None:
    """A cold start of 10 s under an idle time of 7 s succeeds.

    Knative's timer runs while the request waits, and ends it.
    """
    (pod,) = await world.serving(1)
    world.apply(revision(idleTimeoutSeconds=7), private())
    await world.passes()
    client = await world.call()
    await world.passes(10)
    world.apply(private([pod.at]))
    assert await client.text() == "pod-0"


async def test_TestIdleTimeoutHandler__waiting_counts_where_that_is_set(
    new_world: Callable[..., Awaitable[World]],
) -> None:
    """``--idle-from-arrival true``: as in Knative the same cold start is ended after 7 s."""
    world = await new_world(idle_from_arrival="true")
    world.apply(revision(idleTimeoutSeconds=7), private())
    await world.passes()
    await timed_out(world, 7)


async def test_TestTimeToResponseStartTimeoutHandler__interim_answers_count(world: World) -> None:
    """A 103 is a beginning: the response-start timer is done. The rest may take its time."""
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    await answering(world, [(0.5, early), (5, http(b"hi"))], responseStartTimeoutSeconds=1)
    answer = await world.ask()
    assert (answer.interim, answer.status, answer.body) == ([103], 200, b"hi")
