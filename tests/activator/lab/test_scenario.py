"""Scenarios, and short ones with a real activator each."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from activator.lab import environment as environment_module
from activator.lab import programs, scenarios
from activator.lab.environment import Environment
from activator.lab.scenario import Scenario, ScenarioOutcome, run_scenario
from activator.lab.scenarios import SCENARIOS, find
from activator.lab.timeline import TimelineEntry, Who
from tests.process import addresses
from tests.rows import in_one_test


def test_each_scenario_of_the_folder_is_in_it_once():
    folder = Path(scenarios.__file__).parent
    names = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    modules = [import_module(f"{scenarios.__name__}.{name}") for name in names]
    found = [each for module in modules for each in vars(module).values()]
    declared = [each.name for each in found if isinstance(each, Scenario)]
    assert sorted(declared) == sorted(scenario.name for scenario in SCENARIOS)


def test_numbers_go_up_and_names_are_different():
    numbers = [scenario.number for scenario in SCENARIOS]
    assert numbers == sorted(set(numbers))
    assert len({scenario.name for scenario in SCENARIOS}) == len(SCENARIOS)


def test_scenarios_are_found_by_number_and_by_name_in_the_order_of_the_words():
    assert [scenario.number for scenario in find(["12", "readiness"])] == [12, 5]
    assert find([]) == list(SCENARIOS)


@pytest.mark.parametrize("word", ["0", "99", "Readiness", ""])
def test_other_words_get_a_list_of_what_there_is(word):
    with pytest.raises(
        LookupError, match=rf"1 to {len(SCENARIOS)}: exec-readiness, .*drain, plain-cold-start"
    ):
        find([word])


@in_one_test("scenario", SCENARIOS)
def test_scenario_says_what_it_is(scenario: Scenario):
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", scenario.name)
    assert not scenario.title.endswith(".")
    assert (scenario.knative == "") is (scenario.kubernetes != "")
    others = scenario.knative or scenario.kubernetes
    assert others.endswith(".")
    assert scenario.here.endswith(".")


async def perform(script, **more) -> ScenarioOutcome:
    return await run_scenario(Scenario(1, "n", "t", "o", script, "k"), addresses(), **more)


async def test_scenario_whose_checks_pass_has_passed():
    async def script(environment: Environment) -> None:
        environment.expect("so", True)

    outcome = await perform(script)
    assert (outcome.passed, outcome.error) == (True, "")
    assert [entry.what for entry in outcome.entries] == ["so"]


async def test_failed_check_does_not_end_the_script():
    async def script(environment: Environment) -> None:
        environment.expect("so", False, "not so")
        environment.expect("otherwise", True)

    outcome = await perform(script)
    assert not outcome.passed
    assert [entry.passed for entry in outcome.entries] == [False, True]


async def test_what_does_not_come_ends_the_scenario_and_is_named(monkeypatch):
    monkeypatch.setattr(environment_module, "PATIENCE", 0.0)

    async def script(environment: Environment) -> None:
        environment.expect("so", True)
        await environment.until(lambda: False, "the end of days")

    outcome = await perform(script)
    assert (outcome.passed, outcome.error) == (
        False,
        "timed out while waiting for: the end of days",
    )


async def test_activator_that_does_not_start_is_no_crash(monkeypatch):
    monkeypatch.setattr(programs, "OPTIONS", ("--http-port", "many"))

    async def script(environment: Environment) -> None:
        raise AssertionError("there is no environment")

    outcome = await perform(script)
    assert not outcome.passed
    assert outcome.error.startswith("the activator ended: ")


async def test_environment_may_be_used_after_the_script_and_entries_are_passed_on_at_once():
    live: list[TimelineEntry] = []

    async def script(environment: Environment) -> None:
        environment.note(Who.FAULT, "one")
        environment.expect("so", True)

    async def afterwards(environment: Environment, passed: bool) -> None:
        assert passed
        environment.note(Who.FAULT, "two")

    outcome = await perform(script, live=live.append, afterwards=afterwards)
    assert [entry.what for entry in live] == ["one", "so", "two"]
    assert [entry.what for entry in outcome.entries] == ["one", "so"]
