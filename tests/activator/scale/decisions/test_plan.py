"""What is done about one Service: cold start, takeover, scale to zero, other owners."""

from __future__ import annotations

import random
from typing import Any

import pytest

from activator.kpa.decision import ScaleRules, Why
from activator.plain.annotations import Annotations, Owner, Route
from activator.scale.decisions.plan import (
    ACTIVATION_LEASE,
    OBSERVATION,
    PODS_END,
    PROPAGATION,
    RETRY_COLD_START,
    SLICE_WRITTEN,
    Observed,
    Plan,
    Planner,
    WorkloadPhase,
)
from activator.scale.reasons import ScaleReason
from tests.rows import in_one_test
from throttler.model import AdaptiveMode, HashKey, KeyKind, Policies, QueueOrder
from throttler.request_policies import Authorization, RequestPolicies

SHARED = Annotations()
TAKEOVER = Annotations(route=Route.TAKEOVER)
OTHERS = [Owner.KEDA, Owner.HPA, Owner.NONE]


NEVER = float("-inf")
AUTH = "http://auth"


def authorized_by(authorization: Authorization) -> Policies:
    return Policies(requests=RequestPolicies(authorization=authorization))


def seen(
    current: float = 0,
    replicas: int = 1,
    ready: int | None = None,
    busy: float = NEVER,
    **more: Any,
) -> Observed:
    """Return a Service whose load and whose slice have been the same for a while."""
    given: dict[str, Any] = {"frozen": None, "last_busy": busy, "slice_since": NEVER} | more
    return Observed(
        current,
        current,
        current,
        replicas=replicas,
        ready=replicas if ready is None else ready,
        **given,
    )


def asks(owner: Owner, **scale: Any) -> Annotations:
    return Annotations(owner=owner, scale=ScaleRules(**scale))


# -- cold start -----------------------------------------------------------------------------------


@pytest.mark.parametrize("owner", Owner)
def test_a_request_scales_from_zero_with_every_owner(owner: Owner) -> None:
    planner = Planner(0)
    plan = planner.decide(asks(owner, initial_scale=2), seen(1, 0, busy=5), 5)
    assert (plan.replicas, plan.why, plan.phase) == (2, Why.COLD_START, WorkloadPhase.ASLEEP)
    assert plan.active


@pytest.mark.parametrize("owner", Owner)
def test_a_cold_start_is_asked_for_every_two_seconds_while_replicas_stay_at_zero(
    owner: Owner,
) -> None:
    planner, asked = Planner(0), asks(owner)
    asked_at = []
    now = 5.0
    while now < 12:
        plan = planner.decide(asked, seen(1, 0, busy=now), now)
        if plan.replicas is not None:
            asked_at.append(now)
        else:
            assert plan.hold is ScaleReason.WAITING_TO_RETRY
            assert plan.next == asked_at[-1] + RETRY_COLD_START
        now += 0.25
    assert asked_at == [5, 7, 9, 11]


@pytest.mark.parametrize("owner", OTHERS)
def test_another_owner_decides_about_everything_else(owner: Owner) -> None:
    planner = Planner(0)
    for current, replicas in ((0, 0), (900, 1), (0, 5), (1, 1)):
        plan = planner.decide(asks(owner, min_scale=2), seen(current, replicas), 1000)
        assert (plan.replicas, plan.why) == (None, None)


@pytest.mark.parametrize("owner", OTHERS)
def test_a_cold_start_of_another_owner_keeps_its_bounds(owner: Owner) -> None:
    assert Planner(0).decide(asks(owner, initial_scale=5, max_scale=3), seen(1, 0), 1).replicas == 3
    assert Planner(0).decide(asks(owner, min_scale=2), seen(1, 0), 1).replicas == 2


def test_a_cold_start_counts_as_active_until_30_s_after_its_pods_are_ready() -> None:
    planner, asked = Planner(0), asks(Owner.KEDA)
    assert not planner.decide(asked, seen(0, 0), 1).active
    assert planner.decide(asked, seen(1, 0, busy=2), 2).active
    assert planner.decide(asked, seen(1, 1, 0, busy=10), 10).active
    # The client has gone, and the pods are not ready.
    assert planner.decide(asked, seen(0, 1, 0, busy=10), 11).active
    assert planner.decide(asked, seen(0, 1, 1, busy=10), 20).active
    assert planner.decide(asked, seen(0, 1, 1, busy=10), 19.9 + ACTIVATION_LEASE).active
    assert not planner.decide(asked, seen(0, 1, 1, busy=10), 20 + ACTIVATION_LEASE).active


def test_the_owner_may_need_a_longer_lease() -> None:
    planner, asked = Planner(0), asks(Owner.KEDA)
    planner.decide(asked, seen(1, 1, 0, busy=10, lease=120), 10)
    planner.decide(asked, seen(0, 1, 1, busy=10, lease=120), 20)
    plan = planner.decide(asked, seen(0, 1, 1, busy=10, lease=120), 139.9)
    assert (plan.active, plan.next) == (True, 140)
    assert not planner.decide(asked, seen(0, 1, 1, busy=10, lease=120), 140).active


# -- owner self -----------------------------------------------------------------------------------


def test_the_load_decides_for_owner_self() -> None:
    plan = Planner(0).decide(asks(Owner.SELF, target=10), seen(45, 1, busy=5), 5)
    assert (plan.replicas, plan.phase, plan.hold) == (5, WorkloadPhase.AWAKE, None)


def test_the_last_pod_goes_idle_seconds_after_the_last_request() -> None:
    planner, asked = Planner(0), asks(Owner.SELF, idle=10)
    planner.decide(asked, seen(1, 1, busy=100), 100)
    assert planner.decide(asked, seen(0, 1, busy=100.5), 110.4).replicas is None
    plan = planner.decide(asked, seen(0, 1, busy=100.5), 110.5)
    assert (plan.replicas, plan.why) == (0, Why.IDLE)


def test_min_scale_is_reached_without_a_request() -> None:
    plan = Planner(0).decide(asks(Owner.SELF, min_scale=2), seen(0, 0), 1)
    assert (plan.replicas, plan.why) == (2, Why.MIN_SCALE)


@pytest.mark.parametrize(
    ("more", "hold"),
    [
        ({"other_owner": "HPA shop/hello"}, ScaleReason.TWO_OWNERS),
        ({"frozen": ScaleReason.ACTIVATORS_UNREACHABLE}, ScaleReason.ACTIVATORS_UNREACHABLE),
        ({"frozen": ScaleReason.STALE_STATE}, ScaleReason.STALE_STATE),
        ({"frozen": ScaleReason.NEW_LEADER}, ScaleReason.NEW_LEADER),
    ],
)
def test_replicas_are_not_lowered(more: Any, hold: ScaleReason | None) -> None:
    planner = Planner(0)
    plan = planner.decide(SHARED, seen(0, 3, **more), 1000)
    assert (plan.replicas, plan.hold) == (None, hold)
    # Raising them is safe.
    assert planner.decide(SHARED, seen(900, 3, busy=1001, **more), 1001).replicas == 9
    assert planner.decide(SHARED, seen(1, 0, busy=1002, **more), 1002).replicas == 1


def test_a_lower_max_scale_counts_although_the_load_is_unknown() -> None:
    asked = asks(Owner.SELF, max_scale=2, target=10)
    plan = Planner(0).decide(asked, seen(90, 5, busy=1, frozen=ScaleReason.STALE_STATE), 1)
    assert (plan.replicas, plan.why) == (2, Why.MAX_SCALE)


# -- takeover -------------------------------------------------------------------------------------


def test_the_shared_route_never_takes_over() -> None:
    planner = Planner(0)
    for replicas in (0, 1, 0):
        assert not planner.decide(SHARED, seen(0, replicas), 1).takes_over


def test_the_activators_take_over_while_no_pod_is_ready_and_a_moment_longer() -> None:
    planner = Planner(0)
    assert planner.decide(TAKEOVER, seen(0, 0), 1).takes_over
    assert planner.decide(TAKEOVER, seen(1, 1, 0, busy=2), 2).takes_over
    plan = planner.decide(TAKEOVER, seen(1, 1, 1, busy=3), 3)
    assert plan.takes_over
    assert plan.next == 3 + PROPAGATION
    assert not planner.decide(TAKEOVER, seen(0, 1, 1, busy=3), 3 + PROPAGATION).takes_over
    # All pods are gone, whatever took them.
    assert planner.decide(TAKEOVER, seen(0, 1, 0, busy=3), 9).takes_over


@in_one_test(
    ("more", "stay"),
    [
        ({"route": Route.TAKEOVER}, False),
        ({"route": Route.FRONT}, False),
        ({"route": Route.FRONT, "container_concurrency": 1}, True),
        ({"route": Route.FRONT, "policies": Policies(load_balancing="random-choice-2")}, True),
        ({"route": Route.FRONT, "policies": Policies(adaptive=AdaptiveMode.OBSERVE)}, True),
        ({"route": Route.FRONT, "policies": Policies(sticky=HashKey(kind=KeyKind.COOKIE))}, True),
        # These decide about requests without a pod, and then the activators are endpoints.
        ({"route": Route.FRONT, "policies": Policies(order=QueueOrder())}, False),
        ({"route": Route.FRONT, "policies": Policies(requests=RequestPolicies())}, False),
        ({"route": Route.FRONT, "policies": authorized_by(Authorization(AUTH))}, False),
        ({"route": Route.FRONT, "policies": authorized_by(Authorization(AUTH, always=True))}, True),
        (
            {
                "route": Route.FRONT,
                "policies": authorized_by(Authorization(AUTH, response_headers=(b"x-user",))),
            },
            True,
        ),
    ],
)
def test_the_activators_stay_if_each_request_needs_them(more: Any, stay: bool) -> None:
    planner = Planner(0, ready=1)
    assert planner.decide(Annotations(**more), seen(1, 1, busy=50), 50).takes_over is stay


def test_the_activators_take_over_before_the_last_pod_goes() -> None:
    asked = Annotations(route=Route.TAKEOVER, scale=ScaleRules(idle=20))
    planner = Planner(0, ready=1)
    assert not planner.decide(asked, seen(0, 1), 19).takes_over
    plan = planner.decide(asked, seen(0, 1), 20)
    assert plan == Plan(
        None, Why.IDLE, ScaleReason.TAKING_OVER, True, False, WorkloadPhase.CLOSING, 40
    )
    assert planner.decide(asked, seen(0, 1), 39.9).replicas is None
    plan = planner.decide(asked, seen(0, 1), 40)
    assert (plan.replicas, plan.takes_over) == (0, True)
    # The pod ends later than the scaler sees the replicas.
    for ready in (1, 0):
        plan = planner.decide(asked, seen(0, 0, ready), 44)
        assert (plan.replicas, plan.takes_over, plan.phase) == (None, True, WorkloadPhase.ASLEEP)


@pytest.mark.parametrize(
    ("more", "wait"),
    [
        ({"scale": ScaleRules(idle=300)}, OBSERVATION),
        ({"scale": ScaleRules(idle=0)}, PROPAGATION),
        ({"scale": ScaleRules(idle=300), "route": Route.FRONT}, OBSERVATION),
        (
            {"scale": ScaleRules(idle=300), "route": Route.FRONT, "container_concurrency": 1},
            PROPAGATION,
        ),
    ],
)
def test_how_long_the_activators_watch_for_requests(more: Any, wait: float) -> None:
    asked = Annotations(**{"route": Route.TAKEOVER} | more)
    planner = Planner(0, ready=1)
    assert planner.decide(asked, seen(0, 1), 300).replicas is None
    assert planner.decide(asked, seen(0, 1), 299.9 + wait).replicas is None
    assert planner.decide(asked, seen(0, 1), 300 + wait).replicas == 0


def test_the_pods_stay_until_the_slice_is_in_place() -> None:
    asked = Annotations(route=Route.TAKEOVER, scale=ScaleRules(idle=20))
    planner = Planner(0, ready=1)
    plan = planner.decide(asked, seen(0, 1, slice_since=None), 20)
    assert (plan.replicas, plan.takes_over, plan.hold) == (None, True, ScaleReason.TAKING_OVER)
    assert plan.next == 20 + SLICE_WRITTEN
    for now in (20 + SLICE_WRITTEN, 40, 400):
        plan = planner.decide(asked, seen(0, 1, slice_since=None), now)
        assert (plan.replicas, plan.takes_over, plan.hold) == (
            None,
            True,
            ScaleReason.TAKEOVER_NOT_IN_PLACE,
        )
    plan = planner.decide(asked, seen(0, 1, slice_since=400), 401)
    assert (plan.replicas, plan.hold, plan.next) == (None, ScaleReason.TAKING_OVER, 420)
    # An activator left, and the slice lists only one that came later.
    plan = planner.decide(asked, seen(0, 1, slice_since=410), 420)
    assert (plan.replicas, plan.next) == (None, 430)
    assert planner.decide(asked, seen(0, 1, slice_since=410), 430).replicas == 0


@pytest.mark.parametrize(
    "more", [{"other_owner": "HPA hello"}, {"frozen": ScaleReason.STALE_STATE}]
)
def test_the_activators_do_not_take_over_from_pods_that_stay(more: Any) -> None:
    asked = Annotations(route=Route.TAKEOVER, scale=ScaleRules(idle=20))
    planner = Planner(0, ready=1)
    for now in (20, 40, 400):
        plan = planner.decide(asked, seen(0, 1, **more), now)
        assert (plan.replicas, plan.takes_over, plan.phase) == (None, False, WorkloadPhase.AWAKE)
        assert plan.hold is not None
    # The reason ends while the activators observe.
    assert planner.decide(asked, seen(0, 1), 401).takes_over
    assert not planner.decide(asked, seen(0, 1, **more), 410).takes_over
    assert planner.decide(asked, seen(0, 1), 411).takes_over
    assert planner.decide(asked, seen(0, 1), 421).replicas is None
    assert planner.decide(asked, seen(0, 1), 431).replicas == 0


def test_a_pod_that_is_not_ready_stays_until_the_slice_is_in_place() -> None:
    asked = Annotations(route=Route.TAKEOVER, scale=ScaleRules(idle=20))
    planner = Planner(0)
    for now, hold in ((20, ScaleReason.TAKING_OVER), (40, ScaleReason.TAKEOVER_NOT_IN_PLACE)):
        plan = planner.decide(asked, seen(0, 1, 0, slice_since=None), now)
        assert (plan.replicas, plan.takes_over, plan.hold) == (None, True, hold)
        assert plan.phase is WorkloadPhase.STARTING
    # Nothing is to be observed: no pod takes requests.
    assert planner.decide(asked, seen(0, 1, 0, slice_since=40), 40).replicas == 0
    # The pod becomes ready, and the activators observe from then on.
    assert planner.decide(asked, seen(0, 1, 0, slice_since=None), 41).replicas is None
    plan = planner.decide(asked, seen(0, 1, slice_since=40), 50)
    assert (plan.replicas, plan.hold) == (None, ScaleReason.TAKING_OVER)
    assert planner.decide(asked, seen(0, 1, slice_since=40), 69.9).replicas is None
    assert planner.decide(asked, seen(0, 1, slice_since=40), 70).replicas == 0


def test_only_the_oldest_service_of_a_workload_adds_pods_that_run() -> None:
    planner, asked = Planner(0), asks(Owner.SELF, min_scale=2)
    plan = planner.decide(asked, seen(1, 1, other_owner="Service shop/a", decides=False), 1)
    assert (plan.replicas, plan.hold) == (None, ScaleReason.TWO_OWNERS)
    plan = planner.decide(asked, seen(1, 0, other_owner="Service shop/a", decides=False), 1)
    assert plan.replicas == 2


def test_pods_that_end_do_not_count_as_ready() -> None:
    asked = Annotations(route=Route.TAKEOVER, scale=ScaleRules(idle=20))
    planner = Planner(0, ready=1)
    assert planner.decide(asked, seen(0, 0, 1), 50).takes_over
    # A request comes before Kubernetes has ended the pod.
    plan = planner.decide(asked, seen(1, 0, 1, busy=51), 51)
    assert (plan.replicas, plan.takes_over) == (1, True)
    for now in (52, 55, 51 + PODS_END - 0.1):
        assert planner.decide(asked, seen(1, 1, 1, busy=now), now).takes_over
    # The pod ends.
    planner.decide(asked, seen(1, 1, 0, busy=61), 61)
    assert planner.decide(asked, seen(1, 1, 1, busy=62), 62).takes_over
    assert not planner.decide(asked, seen(1, 1, 1, busy=64), 62 + PROPAGATION).takes_over


def test_a_pod_that_does_not_end_counts_as_ready_again() -> None:
    asked = Annotations(route=Route.TAKEOVER, scale=ScaleRules(idle=20))
    planner = Planner(0, ready=1)
    assert planner.decide(asked, seen(0, 0, 1), 50).takes_over
    for now in (51, 50 + PODS_END, 51 + PODS_END):
        plan = planner.decide(asked, seen(1, 1, 1, busy=now), now)
        assert plan.takes_over
    now += PROPAGATION
    assert not planner.decide(asked, seen(1, 1, 1, busy=now), now).takes_over


def test_the_shared_route_needs_no_slice() -> None:
    asked = Annotations(scale=ScaleRules(idle=20))
    assert Planner(0, ready=1).decide(asked, seen(0, 1, slice_since=None), 20).replicas == 0


def test_a_short_request_keeps_a_service_active_between_two_polls() -> None:
    planner, asked = Planner(0), asks(Owner.KEDA)
    assert planner.decide(asked, seen(0, 1), 50).active  # its pods have just become ready
    assert planner.decide(asked, seen(0, 1, busy=100), 101).active
    plan = planner.decide(asked, seen(0, 1, busy=100), 99.9 + ACTIVATION_LEASE)
    assert (plan.active, plan.next) == (True, 100 + ACTIVATION_LEASE)
    assert not planner.decide(asked, seen(0, 1, busy=100), 100 + ACTIVATION_LEASE).active


def test_a_workload_that_its_owner_self_ends_is_not_active_whatever_the_lease_says() -> None:
    """The change to zero is the scaler's own: no other component may be blamed for it."""
    planner, asked = Planner(0), asks(Owner.SELF, idle=5)
    assert planner.decide(asked, seen(1, 1, busy=10), 10).active
    plan = planner.decide(asked, seen(0, 1, busy=10), 16)
    assert (plan.replicas, plan.active) == (0, False)


def test_a_request_while_closing_keeps_the_pods_and_restarts_the_idle_time() -> None:
    asked = Annotations(route=Route.TAKEOVER, scale=ScaleRules(idle=20))
    planner = Planner(0, ready=1)
    planner.decide(asked, seen(0, 1), 20)
    plan = planner.decide(asked, seen(0, 1, busy=25), 25)
    assert (plan.replicas, plan.takes_over, plan.phase) == (None, False, WorkloadPhase.AWAKE)
    assert planner.decide(asked, seen(0, 1, busy=25), 44.9).phase is WorkloadPhase.AWAKE
    assert planner.decide(asked, seen(0, 1, busy=25), 45).phase is WorkloadPhase.CLOSING


@pytest.mark.parametrize("route", [Route.TAKEOVER, Route.FRONT])
@pytest.mark.parametrize("owner", [Owner.KEDA, Owner.HPA])
def test_another_owner_ends_the_last_pod_only_after_the_activators_saw_no_request(
    owner: Owner, route: Route
) -> None:
    asked = Annotations(owner=owner, route=route, scale=ScaleRules(idle=100))
    planner = Planner(0)
    assert planner.decide(asked, seen(1, 0, busy=1), 1).replicas == 1
    assert planner.decide(asked, seen(1, 1, 0, busy=2), 2).active
    # Pods are ready, and from then on clients connect to them.
    plan = planner.decide(asked, seen(0, 1, busy=2, lease=30.0), 10)
    assert (plan.active, plan.takes_over) == (True, True)
    plan = planner.decide(asked, seen(0, 1, busy=2, lease=30.0), 39)
    assert (plan.active, plan.takes_over) == (True, False)
    # Without a slice nothing is observed, and the owner must not scale to zero.
    plan = planner.decide(asked, seen(0, 1, busy=2, slice_since=None), 40)
    assert (plan.active, plan.takes_over, plan.hold) == (True, True, ScaleReason.TAKING_OVER)
    plan = planner.decide(asked, seen(0, 1, busy=2, slice_since=None), 40 + SLICE_WRITTEN)
    assert (plan.active, plan.hold) == (True, ScaleReason.TAKEOVER_NOT_IN_PLACE)
    # A request arrives at an activator: the workload is in use for another 100 s.
    plan = planner.decide(asked, seen(1, 1, busy=52, slice_since=50), 52)
    assert (plan.active, plan.takes_over, plan.hold) == (True, False, None)
    assert not planner.decide(asked, seen(0, 1, busy=52), 151).takes_over
    assert planner.decide(asked, seen(0, 1, busy=52), 152).takes_over
    ends = 152 + OBSERVATION
    assert planner.decide(asked, seen(0, 1, busy=52, slice_since=152), ends - 0.1).active
    plan = planner.decide(asked, seen(0, 1, busy=52, slice_since=152), ends)
    assert (plan.active, plan.takes_over, plan.hold) == (False, True, None)
    # The slice stays until the owner has ended the pod, and after that.
    assert planner.decide(asked, seen(0, 1, busy=52, slice_since=152), ends + 300).takes_over
    assert planner.decide(asked, seen(0, 0, busy=52, slice_since=152), ends + 301).takes_over


# -- walks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("route", [Route.SHARED, Route.TAKEOVER])
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.untraced  # long when traced
def test_any_walk_keeps_the_promises(route: Route, seed: int) -> None:
    """A Service with random traffic, late pods, failing writes and pods that die."""
    chance = random.Random(seed)
    asked = Annotations(
        route=route,
        container_concurrency=chance.choice((0, 0, 5)),
        scale=ScaleRules(10, chance.choice((0, 0, 1)), 0, 1, chance.choice((2.0, 20.0, 90.0))),
    )
    planner, replicas, ready, load, busy = Planner(0), 0, 0, 0.0, 0.0
    slice_since: float | None = None
    waits = 0.0
    for step in range(1, 4000):
        now = step / 2
        if chance.random() < 0.03:
            load = chance.choice((0, 0, 0.5, 12, 60))
        busy = now if load else busy
        known = chance.random() > 0.02
        frozen = None if known else ScaleReason.ACTIVATORS_UNREACHABLE
        observed = seen(load, replicas, ready, busy, frozen=frozen, slice_since=slice_since)
        plan = planner.decide(asked, observed, now)
        if plan.replicas is not None and chance.random() > 0.2:  # else the write has failed
            if plan.replicas < replicas:
                assert known
            if plan.replicas == 0:
                assert not load
                assert now - busy >= asked.scale.idle
                # No request may meet a Service without endpoints.
                is_in_place = slice_since is not None and slice_since <= now - PROPAGATION
                assert route is Route.SHARED or is_in_place or not ready
            replicas = plan.replicas
        if plan.takes_over and slice_since is None:
            slice_since = now if chance.random() > 0.2 else None  # the write has failed
        elif not plan.takes_over:
            slice_since = None
        if route is not Route.SHARED and not ready:
            assert plan.takes_over
        waits = waits + 0.5 if load and not replicas else 0.0
        assert waits < 20, "a request waits, and no replica is asked for"
        ready = min(replicas, ready + chance.choice((0, 0, 1)))
        if chance.random() < 0.01:
            ready = 0
