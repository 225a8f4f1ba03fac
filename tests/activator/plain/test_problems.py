"""Sentences about problems stay short."""

from __future__ import annotations

from activator.objects.fields import ObjectKey
from activator.plain import problems
from activator.plain.route_table import RouteKey
from activator.plain.service import BufferedPort, parse
from activator.plain.slices import Slice
from activator.plain.workloads import PlainWorkload
from tests.activator.plain.objects import service
from throttler.model import AppProtocol


def test_a_sentence_lists_a_few_of_many_candidates() -> None:
    found = parse(service())
    assert found is not None
    every = [
        PlainWorkload(ObjectKey("Deployment", "shop", f"w{n}"), "", 1, {}, ()) for n in range(9)
    ]
    [problem] = problems.of_target(found, every)
    names = "Deployment/w0, Deployment/w1, Deployment/w2 and 6 more"
    assert problem.text.startswith(f"the selector matches {names}; choose one")


def test_slices_without_pods_or_with_the_port_are_no_problem() -> None:
    port = BufferedPort("web", 80, 8080, AppProtocol.HTTP1, tls=False)
    empty = Slice("hello", False, {"x": 1}, ())
    assert list(problems.of_slices(port, [empty])) == []
    with_port = Slice("hello", False, {"web": 1}, ())
    assert list(problems.of_slices(port, [empty, with_port])) == []


def test_a_host_conflict_names_host_and_owner() -> None:
    [problem] = problems.of_hosts({RouteKey("a.com"): "shop/old"})
    assert problem.reason == "host-conflict"
    assert "a.com belongs to the Service shop/old" in problem.text
