"""Both ends see through the activator what they would see without it, whatever the other end does.

Random schedules of both ends run twice: on a direct connection, and through the activator. The two
ends must get the same bytes, the same end of the other side, and the same reset.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import NamedTuple

import pytest

from tests.activator.proxy.tcp.world import TcpPod, TcpWorld
from tests.activator.proxy.world import Client, turns, until
from tests.conftest import both_loops
from tests.rows import naming
from throttler.request_policies import ConnectionPolicies

pytestmark = both_loops

SCHEDULES = 60
#: Of ends that stop to read: each schedule moves megabytes.
SLOW_SCHEDULES = 20
STEPS = 12
#: Turns of the loop after which each step has passed the activator.
SETTLE = 40
#: More than the kernel holds for an end that does not read.
MOST_SENT = 8 << 20
#: The bytes of one end that the activator holds, at most.
PIPE = 256 << 10


class Step(NamedTuple):
    """What an end does; ``size`` is the number of bytes that it sends."""

    by_client: bool
    action: str
    size: int = 0


class View(NamedTuple):
    """What an end has seen."""

    received: bytes
    eof: bool
    reset: bool


def schedule(chance: Random) -> list[Step]:
    """Return the steps of both ends; none acts after its own end or reset, or after a reset."""
    steps: list[Step] = []
    sending = {True: True, False: True}
    for _ in range(STEPS):
        by_client = chance.random() < 0.5
        action = chance.choices(("send", "end", "abort"), (10, 2, 1))[0]
        if not sending[by_client] and action != "abort":
            continue
        if action == "send":
            steps.append(Step(by_client, action, chance.choice((1, 100, 5000, 60_000))))
            continue
        steps.append(Step(by_client, action))
        sending[by_client] = False
        if action == "abort":
            break
    return steps


async def play(steps: list[Step], client: Client, pod: TcpPod, data: bytes) -> tuple[View, View]:
    """Let both ends act; return the views of the client and of the pod."""
    await turns(SETTLE)
    sent = 0
    for step in steps:
        end = client if step.by_client else pod.connections[-1]
        if step.action == "send":
            if not end.transport.is_closing():
                end.send(data[sent : sent + step.size])
            sent += step.size
        elif step.action == "end":
            end.end_sending()
        else:
            end.abort()
        await turns(SETTLE)
    aborted = {step.by_client for step in steps if step.action == "abort"}
    views = []
    for end, is_client in ((client, True), (pod.connections[-1], False)):
        view = View(bytes(end.received), end.eof, end.reset)
        views.append(View(b"", True, True) if is_client in aborted else view)
    return views[0], views[1]


def slow_schedule(chance: Random) -> list[Step]:
    """Return steps of ends that stop to read now and then, and that reset nothing."""
    steps: list[Step] = []
    sending = {True: True, False: True}
    for _ in range(STEPS):
        by_client = chance.random() < 0.5
        action = chance.choices(("send", "end", "pause", "resume"), (6, 1, 4, 2))[0]
        if action in ("send", "end") and not sending[by_client]:
            continue
        sending[by_client] &= action != "end"
        size = chance.choice((1, 5000, MOST_SENT)) if action == "send" else 0
        steps.append(Step(by_client, action, size))
    return steps


@pytest.mark.parametrize("by_client", [True, False])
async def test_ends_that_stop_to_read_get_all_bytes_and_cost_a_pipe_each(
    world: TcpWorld, by_client: bool
) -> None:
    data = Random(7).randbytes(1_000_003) * (STEPS * MOST_SENT // 1_000_000)
    paused = 0
    [pod] = await world.up(connections=ConnectionPolicies(wake_after=0.0))
    for seed in range(SLOW_SCHEDULES):
        steps = [Step(by_client, "pause"), *slow_schedule(Random(seed))]
        client = await world.client()
        await until(lambda: pod.connections and hasattr(pod.connections[0], "transport"))
        ends = {True: client, False: pod.connections[0]}
        sent = {True: b"", False: b""}
        ended = {step.by_client for step in steps if step.action == "end"}
        at = 0
        for step in steps:
            end = ends[step.by_client]
            if step.action == "send":
                piece = data[at : at + step.size]
                at += step.size
                sent[step.by_client] += piece
                end.send(piece)
            elif step.action == "end":
                end.end_sending()
            elif step.action == "pause":
                end.transport.pause_reading()
            else:
                end.transport.resume_reading()
            await turns(SETTLE)
            assert world.proxy.unread.bytes <= 2 * PIPE
            paused += world.proxy.unread.bytes > 0
        with naming(seed, *steps):
            for each, end in ends.items():
                end.transport.resume_reading()
                await end.size(len(sent[not each]))
                assert end.received == sent[not each]
                if (not each) in ended:
                    await end.ended()
                assert not end.reset
        for end in ends.values():
            end.abort()
        await world.in_time(lambda: not world.proxy.connections)
        pod.connections.clear()
    assert paused > SLOW_SCHEDULES // 4, "the kernel's buffers have taken nearly all bytes"


@pytest.mark.parametrize("asleep", [False, True])
async def test_the_ends_see_what_they_would_see_without_the_activator(
    world: TcpWorld, asleep: bool
) -> None:
    loop = asyncio.get_running_loop()
    data = Random(7).randbytes(STEPS * 60_000)
    for seed in range(SCHEDULES):
        steps = schedule(Random(seed))
        if asleep:
            # A client that ends while it waits, or resets, is not there any more.
            first = next((each for each in steps if each.by_client), None)
            if not steps or first is None or first.action != "send":
                continue
            steps.remove(first)
            steps.insert(0, first)
        direct = TcpPod()
        await direct.listen()
        _, made = await loop.create_connection(Client, "127.0.0.1", direct.port)
        expected = await play(steps, made, direct, data)
        pod = TcpPod()
        world.set(connections=ConnectionPolicies(wake_after=0.0))
        world.pods.append(pod)  # type: ignore[arg-type] # it has all that is used
        client = await world.client()
        if asleep:
            await turns(SETTLE)
        await world.start_pod(pod)
        await world.in_time(lambda pod=pod: pod.connections)
        found = await play(steps, client, pod, data)
        with naming(seed, *steps):
            assert found == expected
        for each in (client, made):
            each.abort()
        await world.in_time(lambda: not world.proxy.connections)
        await pod.close()
        await direct.close()
        world.put()
        world.pods.clear()  # a later pod may have the same port
