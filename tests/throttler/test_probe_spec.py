from __future__ import annotations

import pytest

from throttler.model import ProbeKind, ProbeSpec, Revision, RevisionID


@pytest.mark.parametrize(
    ("status", "ready"), [(199, False), (200, True), (399, True), (400, False), (503, False)]
)
def test_the_statuses_that_kubelet_accepts_are_the_default(status: int, ready: bool) -> None:
    assert ProbeSpec(kind=ProbeKind.HTTP).accepts(status) is ready


def test_a_revision_without_a_probe_of_its_own_gets_a_tcp_probe() -> None:
    assert Revision(RevisionID("default", "a")).probe.kind is ProbeKind.TCP


@pytest.mark.parametrize(
    ("spec", "seconds"),
    [
        (ProbeSpec(ProbeKind.TCP), 0.005),
        (ProbeSpec(ProbeKind.GRPC), 0.005),
        (ProbeSpec(ProbeKind.HTTP), 0.05),
        (ProbeSpec(ProbeKind.HTTP, interval=0.025), 0.025),
    ],
)
def test_a_health_page_gets_fewer_probes_than_a_port(spec: ProbeSpec, seconds: float) -> None:
    assert spec.least_interval == seconds
