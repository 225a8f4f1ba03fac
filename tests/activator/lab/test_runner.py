"""Short scenarios, with a real activator each."""

from __future__ import annotations

from activator.lab import environment as environment_module
from activator.lab import local_activator
from activator.lab.environment import Environment
from activator.lab.runner import run_scenario
from activator.lab.scenario import Scenario
from activator.lab.timeline import ScenarioOutcome, TimelineEntry, Who
from tests.process import addresses


async def perform(script, **more) -> ScenarioOutcome:
    return await run_scenario(Scenario(1, "n", "t", "o", "k", script), addresses(), **more)


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
    monkeypatch.setattr(local_activator, "OPTIONS", ("--http-port", "many"))

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
