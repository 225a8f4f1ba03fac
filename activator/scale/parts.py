"""Lists the parts of the scaler, in the order in which they get each decision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from activator.scale.events import part as events_part
from activator.scale.external_metrics import part as external_metrics_part
from activator.scale.keda import part as keda_part
from activator.scale.owners import part as owners_part
from activator.scale.part import Context, Part
from activator.scale.takeover import part as takeover_part

#: KEDA and HPAs come first: they must read a load before they see the replicas that follow from
#: it. Events come last: they have the findings of the others.
PARTS: Final[Sequence[Callable[[Context], Part]]] = (
    keda_part.make,
    external_metrics_part.make,
    owners_part.make,
    takeover_part.make,
    events_part.make,
)
