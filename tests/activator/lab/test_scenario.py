from __future__ import annotations

import re

import pytest

from activator.lab.scenario import Scenario
from activator.lab.scenarios import SCENARIOS


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_scenario_says_what_it_is(scenario: Scenario):
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", scenario.name)
    assert not scenario.title.endswith(".")
    assert (scenario.script is None) is (scenario.plain is not None)
    others = scenario.knative if scenario.script else scenario.kubernetes
    assert others.endswith(".")
    assert scenario.here.endswith(".")
