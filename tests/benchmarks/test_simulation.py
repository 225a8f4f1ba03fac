"""The simulation: it loses no request, repeats itself, and models Knative's rules."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from xml.etree import ElementTree

import pytest

from benchmarks.simulation import page, sizing, tables
from benchmarks.simulation.agenda import Agenda
from benchmarks.simulation.experiments import EXPERIMENTS
from benchmarks.simulation.knative import ROUND_EVERY, WAKES_AFTER, Knative, assign_slice
from benchmarks.simulation.load import Arrival
from benchmarks.simulation.pods import Pod
from benchmarks.simulation.requests import Request
from benchmarks.simulation.scenario import RuleName, Scaling, Scenario
from benchmarks.simulation.svg import Axis, Series, axis_of, chart
from benchmarks.simulation.world import World, run
from tests.guards import expect_none
from throttler.model import ListedEndpoints

TINY = Scenario(
    "tiny", activators=3, pods=6, limit=2, use=0.8, seconds=2.0, warm_up=0.0, service=0.05
)
FAULTS = Scenario(
    *("tiny faults", 3, 6, 2, 0.6),
    seconds=6.0,
    warm_up=0.0,
    late=1.0,
    replaced=2,
    killed=2,
    rolled=1,
)


class Wire:
    """A network without pods: it records what an activator sends, and who waits."""

    def __init__(self) -> None:
        self.sent: list[tuple[Request, str]] = []
        self.waiting: list[Request] = []
        self.answers: dict[str, bool | None] = {}

    def send(self, request: Request, address: str) -> None:
        self.sent.append((request, address))

    def began_waiting(self, request: Request) -> None:
        self.waiting.append(request)

    def failed(self, request: Request) -> None:
        raise AssertionError("no request fails here")

    def probe(self, address: str) -> bool | None:
        return self.answers.get(address)


def listed(*pods: Pod) -> ListedEndpoints:
    return ListedEndpoints(frozenset(pod.endpoint for pod in pods))


@pytest.mark.parametrize("rule", RuleName)
@pytest.mark.parametrize("scenario", [TINY, FAULTS], ids=lambda one: one.name)
def test_each_request_ends_once_and_a_seed_repeats_a_run(
    scenario: Scenario, rule: RuleName
) -> None:
    world = World(scenario, rule, 1)
    result = world.run()
    measures = world.measures
    assert result.requests == measures.requests + measures.failed == world.arrived
    assert all(not pod.running and not pod.queue for pod in world.cluster.pods.values())
    in_reach = [pod for pod in world.cluster.pods.values() if pod.in_reach]
    assert world.cluster.free == len(in_reach)
    assert run(scenario, rule, 1) == result
    if rule is not RuleName.RANDOM:
        assert run(scenario, rule, 2) != result


def test_one_activator_of_the_product_never_lets_a_request_wait_beside_an_idle_pod() -> None:
    alone = Scenario("alone", 1, 5, 1, 0.95, seconds=10.0, warm_up=0.0, service=0.05)
    result = run(alone, RuleName.PRODUCT, 1)
    assert result.waited > 0.2
    assert result.waited_beside_idle == result.over_limit == 0


def test_the_scaler_finds_the_replicas_that_a_steady_load_needs() -> None:
    steady = Scenario(
        *("steady", 2, 5, 4, 0.5),
        seconds=120.0,
        warm_up=80.0,
        scaling=Scaling(target=2.0),
    )
    result = run(steady, RuleName.PRODUCT, 1)
    assert 0 < result.desired_error < 0.3


@pytest.mark.parametrize(
    ("pods", "index", "count", "expected"),
    [
        ("abcdef", 0, 4, "ae"),
        ("abcdefghij", 0, 3, "abcj"),
        ("abcdefghij", 2, 3, "ghi"),
        ("abc", 4, 5, "b"),
        ("abc", -1, 0, "abc"),
    ],
)
def test_knative_gives_each_activator_a_slice(
    pods: str, index: int, count: int, expected: str
) -> None:
    assert "".join(assign_slice(list(pods), index, count)) == expected


def test_knative_uses_all_pods_without_a_limit() -> None:
    wire, pods = Wire(), [Pod(number, 0) for number in range(10)]
    knative = Knative(wire, Agenda(), Random(1), "10.1.0.1", 0)
    knative.set_activators(frozenset({"10.1.0.1", "10.1.0.2"}))
    knative.set_endpoints(listed(*pods))
    for _ in range(100):
        knative.arrived(Request(Arrival(0.0, 1.0, 0.0), knative))
    assert {address for _, address in wire.sent} == {pod.address for pod in pods}


def test_with_knative_a_new_request_overtakes_a_queued_one() -> None:
    wire, agenda, pod = Wire(), Agenda(), Pod(0, 1)
    knative = Knative(wire, agenda, Random(1), "10.1.0.1", 1)
    knative.set_endpoints(listed(pod))
    first, queued, new = (Request(Arrival(0.0, 1.0, 0.0), knative) for _ in range(3))
    for request in (first, queued):
        knative.arrived(request)
    assert wire.sent == [(first, pod.address)]
    agenda.run(1.0)
    knative.ended(first, pod)
    knative.arrived(new)
    agenda.run(1.0 + WAKES_AFTER)
    assert [request for request, _ in wire.sent] == [first, new]
    knative.ended(new, pod)
    agenda.run(2.0)
    assert [request for request, _ in wire.sent] == [first, new, queued]


def test_knative_probes_a_pod_that_starts_in_rounds() -> None:
    wire, agenda, pod = Wire(), Agenda(), Pod(0, 1)
    knative = Knative(wire, agenda, Random(1), "10.1.0.1", 1, settled=False)
    knative.arrived(Request(Arrival(0.0, 1.0, 0.0), knative))
    wire.answers[pod.address] = False
    knative.set_endpoints(listed(pod))
    agenda.run(0.01)
    wire.answers[pod.address] = True  # it serves right after the first round
    agenda.run(ROUND_EVERY)
    assert not wire.sent
    agenda.run(ROUND_EVERY + 0.01)
    assert len(wire.sent) == 1


def test_the_page_and_its_plots_show_the_results_file() -> None:
    for path, text in page.expected().items():
        assert path.read_text() == text, f"{path}: run python -m benchmarks.simulation.page"


def test_the_text_of_the_page_has_the_figures_of_its_calculation() -> None:
    text = page.PAGES[0].read_text()
    expect_none(figure for figure in sizing.figures() if figure not in text)


def test_the_results_file_does_not_depend_on_the_order_of_runs(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    tables.write(dict(reversed(tables.read().items())), path)
    assert path.read_text() == tables.RESULTS.read_text()


def test_a_plot_keeps_text_readable_and_equal_figures_equal_bytes() -> None:
    x = Axis("pods <each>", (1.0, 10.0), is_log=True)
    lines = [Series("a", [(1.0, 0.0), (10.0, 5.0)]), Series("b", [(1.0, 2.0)])]
    y = axis_of("wait", [0.0, 5.0, 2.0], 0.01)
    text = chart("A & B", x, y, lines)
    assert chart("A & B", x, y, lines) == text
    root = ElementTree.fromstring(text)
    assert root.get("aria-label") == "A & B"
    words = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"pods <each>", "wait", "a", "b", "≤ 0.01", "10"} <= set(words)
    assert "prefers-color-scheme: dark" in text


def test_an_experiment_without_a_complete_row_prints_no_table() -> None:
    """A quick run has only small experiments, and an early end has only some results."""
    found = tables.read()
    reports = next(one for one in EXPERIMENTS if one.name == "reports")
    label, by_rule = next(iter(found["reports"].items()))
    rule = next(iter(by_rule))
    assert [*tables.tables({"reports": {label: by_rule}})] == ["reports"]
    assert tables.tables({"reports": {label: {rule: by_rule[rule]}}}) == {}
    assert tables.tables(found, [replace(reports, rows=[])]) == {}
