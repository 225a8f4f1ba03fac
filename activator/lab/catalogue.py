"""The list of all scenarios, and the search for one by number or name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from activator.lab.scenario import Scenario
from activator.lab.scenarios import (
    adaptive_limit,
    admission,
    drain,
    event_stream,
    exec_readiness,
    fair_queue,
    first_start,
    ingress_probe,
    liveness,
    other_port,
    plain_api_server_away,
    plain_cold_start,
    plain_kill,
    plain_late_probe,
    plain_rollout,
    plain_scale_down,
    plain_scaler_away,
    plain_sleep,
    plain_takeover,
    plain_ten_times,
    plain_two_owners,
    probes_of_others,
    readiness,
    serving_container,
    sidecar_liveness,
    sidecar_readiness,
    stale_endpoints,
    sticky_sessions,
    waiting_page,
    wake_rules,
)

SCENARIOS: Final[tuple[Scenario, ...]] = (
    exec_readiness.SCENARIO,
    liveness.SCENARIO,
    serving_container.SCENARIO,
    sidecar_liveness.SCENARIO,
    readiness.SCENARIO,
    sidecar_readiness.SCENARIO,
    first_start.SCENARIO,
    other_port.SCENARIO,
    stale_endpoints.SCENARIO,
    probes_of_others.SCENARIO,
    ingress_probe.SCENARIO,
    drain.SCENARIO,
    plain_cold_start.SCENARIO,
    plain_late_probe.SCENARIO,
    plain_kill.SCENARIO,
    plain_rollout.SCENARIO,
    plain_scale_down.SCENARIO,
    plain_two_owners.SCENARIO,
    plain_api_server_away.SCENARIO,
    plain_scaler_away.SCENARIO,
    plain_ten_times.SCENARIO,
    plain_takeover.SCENARIO,
    plain_sleep.SCENARIO,
    sticky_sessions.SCENARIO,
    fair_queue.SCENARIO,
    waiting_page.SCENARIO,
    wake_rules.SCENARIO,
    admission.SCENARIO,
    event_stream.SCENARIO,
    adaptive_limit.SCENARIO,
)


def find(words: Iterable[str]) -> list[Scenario]:
    """Return the scenarios of these numbers or names, in that order; all of them for no word.

    Raises:
        LookupError: no scenario has that number or name. The text lists all names.
    """
    found = [_find(word) for word in words]
    return found or list(SCENARIOS)


def _find(word: str) -> Scenario:
    for scenario in SCENARIOS:
        if word in (scenario.name, str(scenario.number)):
            return scenario
    names = ", ".join(scenario.name for scenario in SCENARIOS)
    last = SCENARIOS[-1].number
    raise LookupError(f"there is no scenario {word!r}; there are 1 to {last}: {names}")
