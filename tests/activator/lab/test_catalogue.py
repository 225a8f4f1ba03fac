from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from activator.lab import scenarios
from activator.lab.scenario import Scenario
from activator.lab.scenarios import SCENARIOS, find


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
