"""The throttler probes a pod with requests and no response; less often while it passes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.throttler.world import NAME, Many, One, addresses, revision
from throttler import slots as slots_module
from throttler.model import REACH, AppProtocol, MeshMode, RevisionID
from throttler.pod import PodState, PodTracker
from throttler.slots import SILENT_AFTER
from throttler.ticket import ASSIGNED, QUEUED, Ticket

A, B, C = addresses(3)


class Looks:
    """One revision with two healthy pods; the test scans once a second."""

    def __init__(self, container_concurrency: int = 10, pods: int = 2) -> None:
        self.one = One(container_concurrency)
        self.pods = self.one.healthy(addresses(pods))
        self.probed: list[tuple[float, str]] = []

    def request(self) -> Ticket:
        """Admit a request now."""
        ticket = self.one.tickets.make(self.one.now + 600)
        self.one.throttler.admit(ticket, self.one.now)
        return ticket

    def requests(self, count: int) -> list[Ticket]:
        return [self.request() for _ in range(count)]

    def second(self) -> list[PodTracker]:
        """Let a second pass; return the pods to probe."""
        self.one.now += 1
        probed = self.one.silence.scan(self.one.now)
        self.probed += [(self.one.now, pod.address) for pod in probed]
        return probed

    def seconds(self, count: int, *, passes: bool = False) -> list[float]:
        """Let time pass; return when a pod was due for a probe.

        Arguments:
            passes: each probe passes at once; otherwise no result comes.
        """
        before = len(self.probed)
        for _ in range(count):
            for pod in self.second():
                if passes:
                    self.one.passed(pod)
        return [at for at, _ in self.probed[before:]]


def test_a_pod_that_begins_no_response_for_5_s_is_probed() -> None:
    looks = Looks()
    pod = looks.request().pod
    assert looks.seconds(4) == []
    assert looks.second() == [pod]
    assert pod is not None
    assert pod.state is PodState.HEALTHY, "silence alone ejects no pod"


def test_a_connection_of_a_tcp_service_may_be_silent() -> None:
    looks = Looks()
    throttler = looks.one.throttler
    throttler.set_revision(replace(throttler.revision, protocol=AppProtocol.TCP), looks.one.now)
    looks.request()
    assert looks.seconds(20) == []


def test_it_is_ejected_when_that_probe_fails_until_one_passes() -> None:
    looks = Looks(container_concurrency=1)
    running = looks.request()
    pod = running.pod
    assert pod is not None
    assert looks.seconds(5) == [5.0]
    looks.one.failed(pod, None)
    other, waiting = looks.requests(2)
    assert other.pod is not pod
    assert (running.state, running.pod) == (ASSIGNED, pod), "its own requests stay"
    assert waiting.state is QUEUED
    assert looks.seconds(3) == []
    looks.one.release(running)
    assert waiting.state is QUEUED
    looks.one.passed(pod)
    assert waiting.pod is pod


def test_a_lone_pod_is_probed_as_well_and_requests_wait_here_rather_than_in_it() -> None:
    looks = Looks(pods=1)
    running = looks.request()
    assert looks.seconds(5) == [5.0]
    assert running.pod is not None
    looks.one.failed(running.pod, None)
    assert looks.request().state is QUEUED


def test_a_full_pod_is_probed() -> None:
    looks = Looks(container_concurrency=1, pods=1)
    looks.requests(3)
    assert looks.seconds(5) == [5.0]


def test_a_pod_that_passes_is_probed_ever_more_seldom_while_it_goes_on() -> None:
    """The application computes, or streams one response: the pod stays healthy."""
    looks = Looks()
    looks.request()
    assert looks.seconds(120, passes=True) == [5.0, 15.0, 30.0, 60.0, 90.0, 120.0]


def test_a_probe_without_a_result_yet_is_not_begun_again() -> None:
    """A connect and a response may take 5 s each."""
    looks = Looks()
    looks.request()
    assert looks.seconds(14) == [5.0]


def test_a_response_ends_the_silence_and_the_next_begins_as_the_first() -> None:
    looks = Looks()
    pod = looks.request().pod
    assert pod is not None
    looks.seconds(20)
    pod.last_response_at = looks.one.now
    assert looks.seconds(10) == [25.0]


def test_a_pod_that_responds_is_not_probed_though_one_of_its_requests_takes_long() -> None:
    looks = Looks()
    pod = looks.request().pod
    assert pod is not None
    for _ in range(30):
        assert looks.seconds(2) == []
        pod.last_response_at = looks.one.now


def test_a_pod_without_requests_is_not_probed_and_its_idle_time_does_not_count() -> None:
    looks = Looks(pods=1)
    looks.one.release(looks.request())
    assert looks.seconds(100) == []
    looks.request()
    assert looks.seconds(7) == [105.0]


def test_short_requests_one_after_the_other_are_no_silence() -> None:
    """The client cancels each request after a second: the last one has not waited for long."""
    looks = Looks(pods=1)
    for _ in range(20):
        ticket = looks.request()
        assert looks.seconds(1) == []
        looks.one.release(ticket)


def test_how_long_it_lasts_is_known_and_probes_do_not_shorten_it() -> None:
    looks = Looks(pods=1)
    running = looks.request()
    pod = running.pod
    assert pod is not None
    silence = looks.one.silence
    assert silence.silent_for(pod, looks.one.now) is None
    looks.seconds(int(SILENT_AFTER) - 1)
    assert silence.silent_for(pod, looks.one.now) is None
    looks.seconds(20, passes=True)
    assert silence.silent_for(pod, looks.one.now) == 24.0
    looks.one.failed(pod, None)
    assert silence.silent_for(pod, looks.one.now) == 24.0
    looks.one.release(running)
    assert silence.silent_for(pod, looks.one.now) is None


@pytest.mark.parametrize("mode", [MeshMode.DISABLED, MeshMode.ENABLED])
def test_no_probe_where_its_result_is_of_no_use(mode: MeshMode) -> None:
    """Kubernetes' list decides, or pods are unreachable."""
    looks = Looks()
    looks.request()
    looks.one.throttler.set_reach(REACH[mode, False], looks.one.now)
    assert looks.seconds(60) == []


def test_the_cluster_ip_is_not_probed_for_it() -> None:
    """The activator cannot know which pod behind the ClusterIP is silent."""
    one = One(1, service="10.96.0.5:80", mode=MeshMode.ENABLED)
    one.set_endpoints([A])
    service = one.throttler.backends.service.tracker
    assert service is not None
    one.passed(service)
    assert one.request().pod is service
    for second in range(60):
        assert one.silence.scan(float(second)) == []


def test_a_pod_that_is_not_listed_any_more_is_not_probed() -> None:
    looks = Looks()
    looks.requests(2)
    looks.one.set_endpoints([])
    assert looks.seconds(60) == []


def test_all_revisions_are_looked_at() -> None:
    many, other = Many(), RevisionID("default", "other")
    for id, address in ((NAME, A), (other, B)):
        many.throttler.set_revision(revision(1, id=id), 0.0)
        many.pass_all(many.set_endpoints([address], id=id))
        many.request(id)
    changes = many.throttler.probe_silent_pods(many.now + SILENT_AFTER)
    assert sorted(pod.address for pod in changes.probe) == [A, B]


def test_one_look_takes_in_so_many_pods_and_the_next_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slots_module, "MAX_PODS", 4)
    one = One(1)
    one.healthy(addresses(9))
    one.requests(9)
    seen = [len(one.silence.scan(one.now + SILENT_AFTER + n)) for n in range(4)]
    assert seen == [4, 4, 1, 0]


def test_nothing_is_kept_of_a_pod_that_is_gone() -> None:
    looks = Looks(pods=1)
    running = looks.request()
    looks.seconds(6)
    looks.one.release(running)
    looks.one.set_endpoints([])
    looks.second()
    assert not looks.one.silence.busy_since
