from __future__ import annotations

import asyncio
import io
import json
import signal

import pytest

from activator.lab import command
from activator.lab.command import Misuse, run, show_list
from activator.lab.scenario import ScenarioOutcome
from activator.lab.scenarios import SCENARIOS
from activator.lab.timeline import TimelineEntry, Who


@pytest.fixture
def failing(monkeypatch) -> set[int]:
    """Return the numbers of the scenarios that shall fail; no scenario is really played."""
    numbers: set[int] = set()

    async def run_scenario(scenario, addresses, *more):
        passed = scenario.number not in numbers
        entries = [TimelineEntry(0.0, Who.CHECK, "so", passed)]
        return ScenarioOutcome(scenario, entries, passed, "", 1.0)

    monkeypatch.setattr(command, "run_scenario", run_scenario)
    return numbers


def test_all_are_played_and_summed_up(failing):
    out = io.StringIO()
    assert run([], out=out) == 0
    count = len(SCENARIOS)
    assert f"{count} of {count} passed in {count} s" in out.getvalue()
    assert f"({count} of {count})" in out.getvalue()


def test_one_that_fails_is_named_and_is_the_exit_status(failing):
    failing.add(7)
    out = io.StringIO()
    assert run(["readiness", "7"], out=out) == 1
    assert "1 of 2 passed in 2 s; failed: 7 first-start" in out.getvalue()


def test_json_is_one_document_and_nothing_else(failing):
    failing.add(2)
    out = io.StringIO()
    assert run(["1", "2"], as_json=True, out=out) == 1
    document = json.loads(out.getvalue())
    assert (document["version"], document["passed"], document["seconds"]) == (1, False, 2.0)
    assert [(one["name"], one["passed"]) for one in document["scenarios"]] == [
        *(("exec-readiness", True), ("liveness", False))
    ]


@pytest.mark.parametrize(
    ("words", "options", "says"),
    [
        (["thirteen"], {}, "no scenario 'thirteen'"),
        (["1", "2"], {"keep": True}, "one scenario"),
        ([], {"keep": True}, "one scenario"),
        (["1"], {"keep": True, "as_json": True}, "--json"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_started(failing, words, options, says):
    out = io.StringIO()
    with pytest.raises(Misuse, match=says):
        run(words, out=out, **options)
    assert out.getvalue() == ""


@pytest.mark.parametrize("as_json", [False, True])
def test_events_until_an_interruption_are_shown(monkeypatch, as_json):
    async def run_scenario(scenario, addresses, live):
        live(TimelineEntry(0.0, Who.POD, "hangs"))
        asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            live(TimelineEntry(1.0, Who.POD, "is ended"))

    monkeypatch.setattr(command, "run_scenario", run_scenario)
    out = io.StringIO()
    assert run(["1", "2"], as_json=as_json, out=out) == 130
    said = out.getvalue()
    assert said.count("hangs") == 1
    assert "is ended" not in said
    assert "failed " not in said
    if as_json:
        assert [one["outcome"] for one in json.loads(said)["scenarios"]] == ["interrupted"]
    else:
        assert "           interrupted  by a signal\n" in said
        assert "\ninterrupted: 0 of 2 passed in 0 s, 2 not run to the end\n" in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_is_kept_ends_with_the_status_of_an_interruption(monkeypatch, number):
    async def run_scenario(scenario, addresses, live, afterwards):
        asyncio.get_running_loop().call_soon(signal.raise_signal, number)
        await afterwards(None, True)
        return ScenarioOutcome(scenario, [], True, "", 1.0)

    monkeypatch.setattr(command, "run_scenario", run_scenario)
    monkeypatch.setattr(command, "_guide", lambda environment: [])
    assert run(["1"], keep=True, out=io.StringIO()) == 130


def test_list_names_all():
    out = io.StringIO()
    show_list(out)
    assert len(out.getvalue().splitlines()) == len(SCENARIOS)
