"""Which requests may go where, and which responses prove a mesh."""

from __future__ import annotations

import itertools

import pytest

from tests.throttler.world import revision
from throttler.model import REACH, MeshMode, Reach, ReadinessRule, looks_like_mesh, reach_of

A, E, D = MeshMode.AUTO, MeshMode.ENABLED, MeshMode.DISABLED


@pytest.mark.parametrize(
    ("mode", "addressable", "pods", "service", "trusted"),
    [
        (A, False, True, True, False),
        (E, False, False, True, False),
        (D, False, True, False, True),
        (A, True, True, False, False),
        (E, True, True, False, False),
        (D, True, True, False, True),
    ],
)
def test_the_two_settings_say_what_is_reached(
    mode: MeshMode, addressable: bool, pods: bool, service: bool, trusted: bool
) -> None:
    assert REACH[mode, addressable] == Reach(pods, service, trusted)


def test_no_setting_leaves_a_revision_without_any_way() -> None:
    assert REACH.keys() == set(itertools.product(MeshMode, (False, True)))
    assert all(reach.pods or reach.service for reach in REACH.values())


@pytest.mark.parametrize("knative", REACH.values())
@pytest.mark.parametrize(
    ("readiness", "trusted"), [(ReadinessRule.PROBE, False), (ReadinessRule.NO_PROBE, True)]
)
def test_pods_without_queue_proxy_are_reached_themselves_whatever_knative_says(
    knative: Reach, readiness: ReadinessRule, trusted: bool
) -> None:
    plain = revision(readiness=readiness, behind_queue_proxy=False)
    assert reach_of(plain, knative) == Reach(pods=True, service=False, trusted=trusted)
    assert reach_of(revision(), knative) is knative


@pytest.mark.parametrize("status", [None, 502, 503])
def test_these_responses_might_be_a_meshs(status: int | None) -> None:
    assert looks_like_mesh(status)


@pytest.mark.parametrize("status", [200, 301, 400, 404, 500, 501, 504])
def test_any_other_response_came_from_the_pod(status: int) -> None:
    assert not looks_like_mesh(status)
