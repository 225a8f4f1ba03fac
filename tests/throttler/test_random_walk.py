"""Random lives of two revisions: after every step, the throttler keeps its invariants.

A walk that fails prints its shortest form. ``steps.py`` has the
steps, ``invariants.py`` the checks.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import pytest

from tests.throttler.steps import Steps
from tests.throttler.walk import SHORT_PROOF, SHORT_SILENCE, SMALL_END, SMALL_START
from throttler import adaptive as adaptive_module
from throttler import backends as backends_module
from throttler import pod as pod_module
from throttler import ranked_queue as ranked_queue_module
from throttler import request_policies as policies_module
from throttler import slots as slots_module
from throttler.balancing import POLICIES
from throttler.reason import Reason

pytestmark = pytest.mark.untraced  # long when traced; runs no line that other tests leave out

#: A quarter of the totals is kept, a request and 15 bytes for each of three revisions.
SMALL_RESERVE = 3

Step = tuple[str, int, int]


WEIGHTS = {
    "request": 34,
    "release": 16,
    "hang_up": 5,
    "lose": 6,
    "hold": 3,
    "probe": 6,
    "answer": 6,
    "prove": 17,
    "endpoints": 7,
    "revise": 3,
    "delete": 1,
    "change_activators": 2,
    "change_service": 2,
    "refuse": 5,
    "answer_badly": 6,
    "answer_well": 2,
    "set_mesh": 1,
    "later": 9,
}


#: For lives in which requests wait for one pod: its pods are seldom lost.
PARKED = WEIGHTS | {
    "request": 60,
    "release": 24,
    "hang_up": 3,
    "lose": 2,
    "endpoints": 4,
    "revise": 2,
    "delete": 0,
    "change_service": 0,
    "refuse": 0,
    "answer_badly": 1,
    "later": 20,
}


def random_steps(seed: int, count: int, weights: Mapping[str, int] = WEIGHTS) -> list[Step]:
    chance = random.Random(seed)
    names = chance.choices(list(weights), list(weights.values()), k=count)
    start = [("revise", n, chance.randrange(1 << 16)) for n in (0, 1)]
    return start + [(n, chance.randrange(1 << 16), chance.randrange(1 << 16)) for n in names]


def take(seed: int, steps: Sequence[Step], *, parks: bool = False) -> Steps:
    walk = Steps(seed, parks=parks)
    for name, a, b in steps:
        getattr(walk, name)(a, b)
        walk.check()
        walk.now += 1e-6  # no two requests arrive at the same time
    walk.finish()
    return walk


def failure(seed: int, steps: Sequence[Step], *, parks: bool) -> BaseException | None:
    try:
        take(seed, steps, parks=parks)
    except Exception as error:
        return error
    return None


def shortest(
    steps: list[Step], fails: Callable[[list[Step]], object], tries: int = 2000
) -> list[Step]:
    """Leave out steps that a failure does not need: first large pieces, then single steps."""
    size = len(steps) // 2
    while size and tries > 0:
        at = 0
        while at < len(steps) and tries > 0:
            fewer = steps[:at] + steps[at + size :]
            tries -= 1
            if fails(fewer):
                steps = fewer
            else:
                at += size
        size //= 2
    return steps


@pytest.fixture(autouse=True)
def small_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranked_queue_module, "LEAST_OF_FLOW", 2)
    monkeypatch.setattr(ranked_queue_module, "RESERVED", 4)
    monkeypatch.setattr(policies_module, "RESERVED_FOR", SMALL_RESERVE)
    monkeypatch.setattr(pod_module, "SLOW_START", SMALL_START)
    monkeypatch.setattr(pod_module, "SLOW_START_END", SMALL_END)
    monkeypatch.setattr(adaptive_module, "MIN_LIMIT", 1)
    monkeypatch.setattr(adaptive_module, "MIN_LIMIT", 1)
    monkeypatch.setattr(adaptive_module, "ALLOWANCE", 1)
    monkeypatch.setattr(adaptive_module, "SAMPLES", 1)
    monkeypatch.setattr(adaptive_module, "WINDOW", 0.0)
    monkeypatch.setattr(backends_module, "PROOF_LASTS", SHORT_PROOF)
    monkeypatch.setattr(slots_module, "SILENT_AFTER", SHORT_SILENCE)


def keeps_the_invariants(seed: int, *, parks: bool = False) -> Steps:
    """Take a walk; if it fails, print the fewest steps that fail."""
    steps = random_steps(seed, 300, PARKED if parks else WEIGHTS)
    try:
        return take(seed, steps, parks=parks)
    except Exception:
        fewest = shortest(steps, lambda fewer: failure(seed, fewer, parks=parks))
    lines = "\n".join(f"    {step}," for step in fewest)
    found = failure(seed, fewest, parks=parks)
    pytest.fail(f"take({seed}, [\n{lines}\n], {parks=}): {found!r}", pytrace=False)


def test_random_lives_in_which_requests_wait_for_one_pod() -> None:
    been = Counter[str]()
    for seed in range(80, 100):
        been += keeps_the_invariants(seed, parks=True).been
    parked = ("parked", "parked by class", "parked and aged", "parked in turn")
    assert all(been[place] > 5 for place in parked), been


def test_random_lives_keep_the_invariants_and_go_where_it_matters() -> None:
    """Lives that go nowhere would prove little."""
    paths: set[tuple[str, ...]] = set()
    been = Counter[str]()
    for seed in range(40):
        walk = keeps_the_invariants(seed)
        paths |= {tuple(s.value for s in walk.tickets.states(t)) for t in walk.tickets}
        been += walk.been
        been["gone"] += len(walk.gone)
    assert paths >= {
        ("new", "assigned", "released"),
        ("new", "queued", "assigned", "released"),
        ("new", "queued", "timed-out"),
        ("new", "queued", "cancelled"),
        ("new", "rejected"),
        ("new", "assigned", "queued", "assigned", "released"),
        ("new", "assigned", "timed-out"),
    }
    assert all(been[reason.value] for reason in list(Reason)[:8]), been
    assert all(been[policy] > 100 for policy in POLICIES), been
    rare = (
        "via service",
        "silent",
        "panics",
        "ejected",
        "taken",
        "shed",
        "widened",
        "last resort",
        "parked",
        "sticky",
        "token",
        "adapted",
        "in its zone",
        "outside of its zone",
    )
    assert all(been[place] > 15 for place in (*rare, "gone")), been
    turns = ("by arrival", "by class", "aged", "in turn", "kept its place")
    assert all(been[place] > 15 for place in turns), been
    assert all(been[limit] > 1 for limit in ("flow full", "class-depth", "class-bytes")), been


def test_a_failing_walk_is_cut_down_to_the_steps_that_it_needs() -> None:
    steps = [("request", n, 0) for n in range(100)]
    needed = {("request", 17, 0), ("request", 60, 0)}
    assert set(shortest(steps, lambda fewer: needed <= set(fewer))) == needed
