"""pkg/http/handler/timeout_test.go: three time-outs, and the client's view when one expires.

Knative's cases use milliseconds; these use seconds, the unit of a Revision. All tests share one
difference. After a response has begun, Knative appends the text of its 504 and ends the response
normally. This activator truncates the response, so the client detects the error.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from tests.knative.objects import private, revision
from tests.knative.peers import Client, to, without_date
from tests.knative.pods import Pieces, ScriptedPod, after, breaks, chunked, http
from tests.knative.world import World

TEXT = b"activator request timeout"
#: Each case of TestIdleTimeoutHandler also runs with a maximum duration of five minutes.
FIVE_MINUTES = [pytest.param({}, id="no max"), pytest.param({"timeoutSeconds": 300}, id="max 5m")]


async def answering(world: World, pieces: Pieces, **spec: int) -> ScriptedPod:
    """Apply a revision with one pod, which sends these pieces as its response."""
    (pod,) = await world.serving(1)
    pod.pieces = pieces
    world.apply(revision(**spec), private([pod.at]))  # type: ignore[arg-type] # any option
    await world.passes()
    return pod


async def timed_out(world: World, after_seconds: float) -> None:
    """Send a request, and check that it gets the 504 after so many seconds."""
    started = world.now()
    client = await world.call()
    answer = await client.answer()
    assert (answer.status, answer.body) == (504, TEXT)
    assert answer.get(b"content-type") == b"text/plain; charset=utf-8"
    assert answer.get(b"x-content-type-options") is None
    assert world.now() - started == pytest.approx(after_seconds, abs=0.1)
    await world.passes(30)
    assert not client.unread, "later bytes of the pod do not pass"


async def broken_off(world: World, begun: bytes, after_seconds: float) -> Client:
    """Send a request, and check that its response begins and is truncated, without a text."""
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
    """A response in time passes."""
    await answering(world, after(1), timeoutSeconds=10)
    await whole(world, b"hi")


@pytest.mark.parametrize("seconds", [1, 10], ids=["short", "custom timeout message"])
async def test_TestTimeoutHandler__timeout(world: World, seconds: int) -> None:
    """Without a response within the maximum duration: 504."""
    await answering(world, after(20), timeoutSeconds=seconds)
    await timed_out(world, seconds)


async def test_TestTimeoutHandler__propagate_panic(world: World) -> None:
    """A pod that fails before the time-out is a 502."""
    await answering(world, [(0.5, breaks)], timeoutSeconds=10)
    answer = await world.ask(to(method=b"POST", body=b"x"), b"POST")
    assert answer.status == 502


async def test_TestTimeoutHandler__timeout_before_panic(world: World) -> None:
    """The time-out expires first: the client gets only the 504."""
    await answering(world, [(5, breaks)], timeoutSeconds=1)
    await timed_out(world, 1)


# TestTryTimeoutAndWriteErrorBehavior


async def test_TestTryTimeoutAndWriteErrorBehavior__not_started(world: World) -> None:
    """Before the first byte of a response: 504 and the text."""
    await answering(world, after(20), timeoutSeconds=2)
    await timed_out(world, 2)


async def test_TestTryTimeoutAndWriteErrorBehavior__started(world: World) -> None:
    """The response has begun: its status stays, and it is truncated.

    Knative's case asserts ``partial response``, the text and a normal end. A client cannot
    distinguish that from a complete response.
    """
    await answering(world, chunked((0, b"partial response"), ends=20), timeoutSeconds=2)
    await broken_off(world, b"partial response", 2)


@pytest.mark.parametrize("length", [16, 30, 1000])
async def test_TestTryTimeoutAndWriteErrorBehavior__started_with_length(
    world: World, length: int
) -> None:
    """The same with Content-Length: less, about or much more than the text is outstanding."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length
    await answering(world, [(0, head + b"partial"), (20, b"")], timeoutSeconds=2)
    client = await broken_off(world, b"partial", 2)
    assert client.received.endswith(b"\r\n\r\npartial")


# TestTimeToResponseStartTimeoutHandler


async def test_TestTimeToResponseStartTimeoutHandler__all_good(world: World) -> None:
    """The response begins in time."""
    await answering(world, after(1), responseStartTimeoutSeconds=5)
    await whole(world, b"hi")


@pytest.mark.parametrize("seconds", [1, 7])
async def test_TestTimeToResponseStartTimeoutHandler__timeout(world: World, seconds: int) -> None:
    """The response does not begin in time: 504, before the maximum duration."""
    await answering(world, after(20), responseStartTimeoutSeconds=seconds)
    await timed_out(world, seconds)


async def test_TestTimeToResponseStartTimeoutHandler__propagate_panic(world: World) -> None:
    """A pod that fails before the time-out is a 502."""
    await answering(world, [(0.5, breaks)], responseStartTimeoutSeconds=5)
    assert (await world.ask(to(method=b"POST", body=b"x"), b"POST")).status == 502


async def test_TestTimeToResponseStartTimeoutHandler__timeout_before_panic(world: World) -> None:
    """A pod that fails after the time-out changes nothing."""
    await answering(world, [(5, breaks)], responseStartTimeoutSeconds=1)
    await timed_out(world, 1)


async def test_TestResponseStartTimeoutAfterResponseStarted(world: World) -> None:
    """A response that began in time passes whole, also after the time-out."""
    pieces = chunked((0.5, b"foo"), (5, b"bar"), (20, b"baz"))
    await answering(world, pieces, responseStartTimeoutSeconds=1, timeoutSeconds=30)
    await whole(world, b"foobarbaz")


async def test_TestTimeoutWriterAllowsForAdditionalWritesBeforeTimeout(world: World) -> None:
    """After a write neither response-start nor idle expires, as long as more bytes follow."""
    pieces = chunked((0.5, b"a"), (1.4, b"b"), (2.3, b"c"))
    await answering(world, pieces, responseStartTimeoutSeconds=1, idleTimeoutSeconds=1)
    await whole(world, b"abc")


async def test_TestTimeoutWriterErrorsWriteAfterTimeout(world: World) -> None:
    """Bytes after the time-out do not reach the client; the pod's connection is closed."""
    pod = await answering(world, chunked((0, b"foo"), (5, b"late")), timeoutSeconds=2)
    await broken_off(world, b"foo", 2)
    (connection,) = [each for each in pod.connections if each.requests[-1] in pod.traffic]
    await world.passes(0.1)
    assert connection.closed


# TestIdleTimeoutHandler


@pytest.mark.parametrize("spec", FIVE_MINUTES)
async def test_TestIdleTimeoutHandler__all_good(world: World, spec: dict[str, int]) -> None:
    """A response in time passes."""
    await answering(world, after(0.5), idleTimeoutSeconds=1, **spec)
    await whole(world, b"hi")


@pytest.mark.parametrize("spec", FIVE_MINUTES)
async def test_TestIdleTimeoutHandler__timeout(world: World, spec: dict[str, int]) -> None:
    """The pod sends no byte within the idle time-out: 504."""
    await answering(world, after(20), idleTimeoutSeconds=1, **spec)
    await timed_out(world, 1)


@pytest.mark.parametrize("spec", FIVE_MINUTES)
async def test_TestIdleTimeoutHandler__propagate_panic(world: World, spec: dict[str, int]) -> None:
    """A pod that fails before the time-out is a 502."""
    await answering(world, [(0.5, breaks)], idleTimeoutSeconds=1, **spec)
    assert (await world.ask(to(method=b"POST", body=b"x"), b"POST")).status == 502


@pytest.mark.parametrize("spec", FIVE_MINUTES)
async def test_TestIdleTimeoutHandler__timeout_before_panic(
    world: World, spec: dict[str, int]
) -> None:
    """A pod that fails after the time-out changes nothing."""
    await answering(world, [(5, breaks)], idleTimeoutSeconds=1, **spec)
    await timed_out(world, 1)


@pytest.mark.parametrize("spec", FIVE_MINUTES)
async def test_TestIdleTimeoutHandler__successful_writes_prevent_timeout(
    world: World, spec: dict[str, int]
) -> None:
    """Pieces 0.99 s apart with an idle time-out of 1 s: all of them arrive."""
    pieces = chunked((0, b"foo"), (0.99, b"bar"), (1.98, b"baz"), (2.97, b"test"))
    await answering(world, pieces, idleTimeoutSeconds=1, **spec)
    await whole(world, b"foobarbaztest")


@pytest.mark.parametrize("spec", FIVE_MINUTES)
async def test_TestIdleTimeoutHandler__can_still_timeout_after_a_successful_write(
    world: World, spec: dict[str, int]
) -> None:
    """After a piece the pod is silent: truncated. (Knative: 200, ``foo`` and the text.)"""
    await answering(world, chunked((0, b"foo"), ends=20), idleTimeoutSeconds=1, **spec)
    await broken_off(world, b"foo", 1)


@pytest.mark.parametrize("spec", FIVE_MINUTES)
async def test_TestIdleTimeoutHandler__no_idle_timeout(world: World, spec: dict[str, int]) -> None:
    """0 turns the idle time-out off."""
    await answering(world, chunked((0, b"foo"), (60, b"bar")), idleTimeoutSeconds=0, **spec)
    await whole(world, b"foobar")


async def test_TestIdleTimeoutHandler__waiting_for_a_pod_is_not_idle(world: World) -> None:
    """A cold start of 10 s with an idle time-out of 7 s succeeds.

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
    """``--idle-from-arrival true``: as in Knative, the same cold start ends after 7 s."""
    world = await new_world(idle_from_arrival="true")
    world.apply(revision(idleTimeoutSeconds=7), private())
    await world.passes()
    await timed_out(world, 7)


async def test_TestTimeToResponseStartTimeoutHandler__interim_responses_count(world: World) -> None:
    """A 103 ends the response-start time-out; the rest may follow later."""
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    await answering(world, [(0.5, early), (5, http(b"hi"))], responseStartTimeoutSeconds=1)
    answer = await world.ask()
    assert (answer.interim, answer.status, answer.body) == ([103], 200, b"hi")
