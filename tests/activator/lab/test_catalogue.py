from __future__ import annotations

from pathlib import Path

import pytest

from activator.lab import catalogue, scenarios
from activator.lab.catalogue import SCENARIOS, find


def test_each_module_of_the_folder_is_in_it_once():
    folder = Path(scenarios.__file__).parent
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    assert modules <= set(vars(catalogue))
    assert len(modules) == len(SCENARIOS)


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
