"""Short scenarios, with a real activator each."""

from __future__ import annotations

from activator.lab import local_activator, stage
from activator.lab.playing import play
from activator.lab.scenario import Scenario
from activator.lab.stage import Stage
from activator.lab.timeline import Entry, Outcome, Who
from tests.process import addresses


async def perform(script, **more) -> Outcome:
    return await play(Scenario(1, "n", "t", "k", "o", script), addresses(), **more)


async def test_scenario_whose_checks_pass_has_passed():
    async def script(stage: Stage) -> None:
        stage.expect("so", True)

    outcome = await perform(script)
    assert (outcome.passed, outcome.error) == (True, "")
    assert [entry.what for entry in outcome.entries] == ["so"]


async def test_failed_check_does_not_end_the_script():
    async def script(stage: Stage) -> None:
        stage.expect("so", False, "not so")
        stage.expect("otherwise", True)

    outcome = await perform(script)
    assert not outcome.passed
    assert [entry.passed for entry in outcome.entries] == [False, True]


async def test_what_does_not_come_ends_the_scenario_and_is_named(monkeypatch):
    monkeypatch.setattr(stage, "PATIENCE", 0.0)

    async def script(stage: Stage) -> None:
        stage.expect("so", True)
        await stage.until(lambda: False, "the end of days")

    outcome = await perform(script)
    assert (outcome.passed, outcome.error) == (False, "waited in vain for: the end of days")


async def test_activator_that_does_not_start_is_no_crash(monkeypatch):
    monkeypatch.setattr(local_activator, "OPTIONS", ("--http-port", "many"))

    async def script(stage: Stage) -> None:
        raise AssertionError("there is no stage")

    outcome = await perform(script)
    assert not outcome.passed
    assert outcome.error.startswith("the activator ended: ")


async def test_stage_may_be_used_after_the_script_and_entries_are_told_as_they_come():
    live: list[Entry] = []

    async def script(stage: Stage) -> None:
        stage.note(Who.FAULT, "one")
        stage.expect("so", True)

    async def afterwards(stage: Stage, passed: bool) -> None:
        assert passed
        stage.note(Who.FAULT, "two")

    outcome = await perform(script, live=live.append, afterwards=afterwards)
    assert [entry.what for entry in live] == ["one", "so", "two"]
    assert [entry.what for entry in outcome.entries] == ["one", "so"]
