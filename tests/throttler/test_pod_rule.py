"""Which rule decides about a pod, in each situation that users ask about."""

from __future__ import annotations

import random

import pytest

from tests.throttler.world import NAME, Many, One, addresses, revision
from throttler.backends import EJECTION_TIME
from throttler.capacity import ActivatorShare
from throttler.model import Endpoint, MeshMode, ReadinessRule, RevisionID
from throttler.pod import PodState, PodTracker
from throttler.pod_rule import VERDICTS, PodDecision, PodRule, verdict
from throttler.reason import Reason

A, B, C = addresses(3)
VIP = "10.96.0.5:80"


def said(pod: PodTracker) -> tuple[str, str]:
    found = verdict(pod)
    return found.decision.value, found.rule.value


def test_a_pod_is_new_then_passes_its_probe() -> None:
    one = One(1)
    one.set_endpoints([], [A])
    pod = one.pod(A)
    assert said(pod) == ("wait", "awaiting-probe")
    one.passed(pod)
    assert said(pod) == ("use", "probe-passed")


def test_a_pod_fails_its_probe_or_a_request() -> None:
    one = One(1)
    one.set_endpoints([A])
    pod = one.pod(A)
    one.failed(pod)
    assert said(pod) == ("wait", "probe-failed")
    one.passed(pod)
    one.throttler.connect_failed(pod, "refused", one.now)
    assert said(pod) == ("wait", "probe-failed")


def test_a_pod_is_left_alone_for_its_responses() -> None:
    one = One(1)
    pod, *_ = one.healthy([A, B, C])
    one.throttler.responded_badly(pod, "responded 502", one.now, untouched=True)
    assert said(pod) == ("wait", "answered-badly")
    one.now += EJECTION_TIME
    one.passed(pod)
    assert said(pod) == ("use", "on-trial")
    one.throttler.responded_well(pod, one.now)
    assert said(pod) == ("use", "probe-passed")
    one.throttler.responded_badly(pod, "responded 502", one.now, untouched=True)
    one.failed(pod)
    assert said(pod) == ("wait", "probe-failed")


@pytest.mark.parametrize(
    "readiness", [rule for rule in ReadinessRule if rule.value not in ("probe", "no-probe")]
)
def test_kubernetes_has_the_last_word_and_the_rule_says_why(readiness: ReadinessRule) -> None:
    one = One(1, probe_suffices=False)
    spec = revision(1, readiness=readiness)
    one.throttler.set_revision(spec, one.now)
    one.set_endpoints([], [A])
    pod = one.pod(A)
    one.passed(pod)
    assert said(pod) == ("wait", readiness.value)
    one.set_endpoints([A])
    assert said(pod) == ("use", readiness.value)
    one.set_endpoints([], [A])
    assert said(pod) == ("wait", "awaiting-probe")
    one.failed(pod)
    assert said(pod) == ("wait", "probe-failed")


def test_a_pod_that_leaves_with_a_request() -> None:
    one = One(1)
    (pod,) = one.healthy([A])
    one.request()
    one.set_endpoints([])
    assert said(pod) == ("leave", "delisted")


@pytest.mark.parametrize("ready", [True, False])
@pytest.mark.parametrize(("borrow", "decision"), [(True, "use"), (False, "leave")])
def test_a_pod_of_another_activators_share(borrow: bool, decision: str, ready: bool) -> None:
    one = One(1, borrow=borrow)
    one.set_endpoints([A, B] if ready else [], [] if ready else [A, B])
    for address in (A, B):
        one.passed(one.pod(address))
    one.throttler.set_share(ActivatorShare(0, 2), one.now)
    assert said(one.pod(A)) == ("use", "probe-passed")
    assert said(one.pod(B)) == (decision, "beyond-share")


def test_kubernetes_word_is_enough_where_no_mesh_is() -> None:
    one = One(1, mode=MeshMode.DISABLED)
    one.set_endpoints([A], [B])
    assert said(one.pod(A)) == ("use", "kubernetes-ready")
    one.passed(one.pod(B))
    assert said(one.pod(B)) == ("use", "probe-passed")


def test_kubernetes_word_is_enough_where_the_activator_does_not_probe() -> None:
    many = Many()
    many.throttler.set_revision(
        revision(1, readiness=ReadinessRule.NO_PROBE, behind_queue_proxy=False), 0.0
    )
    many.set_endpoints([A], [B])
    a, b = sorted(many.find().backends.pods.values(), key=lambda pod: pod.address)
    assert (said(a), said(b)) == (("use", "no-probe"), ("wait", "no-probe"))
    many.find().connect_failed(a, "refused", 0.0)
    assert said(a) == ("wait", "probe-failed")


def test_a_pod_that_terminates_is_the_last_resort() -> None:
    one = One(1)
    one.healthy([A, B])
    one.set_endpoints([A], [], [B])
    one.set_endpoints([], [], [A])
    assert said(one.pod(A)) == ("use", "terminating")


def test_pods_behind_a_mesh_are_left_to_the_cluster_ip() -> None:
    one = One(1, mode=MeshMode.ENABLED, service=VIP)
    one.set_endpoints([A])
    service = one.throttler.backends.service.tracker
    assert service is not None
    assert said(one.pod(A)) == ("leave", "mesh")
    assert said(service) == ("wait", "awaiting-probe")
    one.passed(service)
    assert said(service) == ("use", "probe-passed")


def test_an_address_that_another_revision_took_stays_in_sight_while_it_is_listed() -> None:
    many, thief = Many(), RevisionID("default", "thief")
    for id in (NAME, thief):
        many.throttler.set_revision(revision(1, id=id), 0.0)
    many.pass_all(many.set_endpoints([Endpoint(A, "old")]))
    running = many.request()
    many.set_endpoints([Endpoint(A, "new")], id=thief)
    for _ in ("it has a request still", "it has none"):
        (pod,) = many.find().statistics().pods
        assert said(pod) == ("leave", "taken")
        assert "another revision, default/thief," in verdict(pod).sentence
        assert pod.ready
        if running.pod:
            many.find().release(running, many.now)
    many.set_endpoints([])
    assert many.find().statistics().pods == ()


def test_what_was_anothers_from_the_start_is_in_sight_too_and_news_of_it_gives_it_back() -> None:
    many, thief = Many(), RevisionID("default", "thief")
    many.throttler.set_revision(revision(1, id=thief), 0.0)
    many.set_endpoints([Endpoint(A, "old")])
    many.set_endpoints([Endpoint(A, "new")], id=thief)
    many.throttler.set_revision(revision(1), 0.0)
    assert [said(pod) for pod in many.find().statistics().pods] == [("leave", "taken")]
    many.set_endpoints([], [Endpoint(A, "old")])
    assert [said(pod) for pod in many.find().statistics().pods] == [("wait", "awaiting-probe")]
    assert [said(pod) for pod in many.find(thief).statistics().pods] == [("leave", "taken")]


def test_the_words_of_a_readiness_rule_are_rules() -> None:
    words = {rule.value for rule in PodRule}
    assert {rule.value for rule in ReadinessRule} - {"probe"} <= words


def test_no_word_is_both_a_rule_and_a_reason() -> None:
    assert not {rule.value for rule in PodRule} & {reason.value for reason in Reason}


def test_every_rule_has_a_sentence_and_each_says_its_decision() -> None:
    assert list(dict.fromkeys(one.rule for one in VERDICTS)) == list(PodRule)
    assert len({one.sentence for one in VERDICTS}) == len(VERDICTS)
    begins = {PodDecision.USE: "Used", PodDecision.WAIT: "Waits", PodDecision.LEAVE: "Not used"}
    for one in VERDICTS:
        assert one.sentence.startswith(begins[one.decision])
        assert one.sentence.endswith(".")


@pytest.mark.untraced
def test_any_life_has_a_sentence_that_agrees_with_what_requests_get() -> None:
    """A walk through the events of pods: only pods that may get requests have the word `use`."""
    draw = random.Random(5)
    for mode in MeshMode:
        for suffices in (True, False):
            one = One(2, mode=mode, probe_suffices=suffices, service=VIP, borrow=suffices)
            for _ in range(400):
                _step(one, draw)
                for pod in one.throttler.backends.pods.values():
                    found = verdict(pod)
                    assert found in VERDICTS
                    assert (found.decision is PodDecision.USE) == pod.in_use
                    if pod.state is PodState.DRAINING:
                        assert found.rule is PodRule.DELISTED


def _step(one: One, draw: random.Random) -> None:
    """Let one event happen."""
    pods = list(one.throttler.backends.pods.values())
    pod = draw.choice(pods) if pods else None
    what = draw.randrange(5)
    if what == 0 or pod is None:
        listed = [a for a in (A, B, C) if draw.random() < 0.7]
        ready = [a for a in listed if draw.random() < 0.6]
        one.set_endpoints(ready, [a for a in listed if a not in ready])
    elif what == 1:
        one.passed(pod)
    elif what == 2:
        one.failed(pod)
    elif what == 3:
        one.throttler.set_share(ActivatorShare(draw.randrange(-1, 2), 2), one.now)
    elif one.throttler.slots.in_flight < 3:
        one.request()
