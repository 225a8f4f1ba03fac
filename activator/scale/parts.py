"""Lists the parts of the scaler, in the order in which they get each decision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from activator.scale import keda_part, takeover_part
from activator.scale.part import Context, Part

#: KEDA comes first: it must read a load before it sees the replicas that follow from it.
PARTS: Final[Sequence[Callable[[Context], Part]]] = (keda_part.make, takeover_part.make)
