"""All scenarios, by theme, and the search for one by number or name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from activator.lab.scenario import Scenario
from activator.lab.scenarios import (
    foreign_probes,
    plain_away,
    plain_pods,
    plain_scaling,
    plain_takeover,
    pod_life,
    readiness,
    restarts,
    sharing,
    waking,
)

SCENARIOS: Final[tuple[Scenario, ...]] = (
    readiness.EXEC_READINESS,
    restarts.LIVENESS,
    restarts.SERVING_CONTAINER,
    restarts.SIDECAR_LIVENESS,
    readiness.READINESS,
    readiness.SIDECAR_READINESS,
    pod_life.FIRST_START,
    readiness.OTHER_PORT,
    pod_life.STALE_ENDPOINTS,
    foreign_probes.PROBES_OF_OTHERS,
    foreign_probes.INGRESS_PROBE,
    pod_life.DRAIN,
    plain_scaling.COLD_START,
    plain_pods.LATE_PROBE,
    plain_pods.KILL,
    plain_pods.ROLLOUT,
    plain_pods.SCALE_DOWN,
    plain_scaling.TWO_OWNERS,
    plain_away.API_SERVER_AWAY,
    plain_away.SCALER_AWAY,
    plain_scaling.TEN_TIMES,
    plain_takeover.TAKEOVER,
    plain_takeover.SLEEP,
    sharing.STICKY_SESSIONS,
    sharing.FAIR_QUEUE,
    waking.WAITING_PAGE,
    waking.WAKE_RULES,
    waking.ADMISSION,
    waking.EVENT_STREAM,
    sharing.ADAPTIVE_LIMIT,
    plain_takeover.FRONT,
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
