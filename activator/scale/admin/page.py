"""Has the files of the scaler's page: its own modules, and shared modules of the dashboard."""

from __future__ import annotations

from functools import cache
from typing import Final

from activator.admin import assets
from activator.scale.admin import advice

INDEX: Final = f"{assets.SCALER}{assets.INDEX}"
#: The module that is made, not read.
REASONS: Final = f"{assets.SCALER}reasons.js"
#: Files of the activator's dashboard.
SHARED: Final = frozenset(
    {
        *("api.js", "connection.js", "dom.js", "format.js", "frame.js", "theme.js"),
        *("icon.svg", "style.css"),
    }
)


@cache
def files() -> dict[str, assets.Asset]:
    """Return the files by path below ``/dashboard/``; takes some milliseconds."""
    return assets.chosen(
        INDEX,
        lambda path: path in SHARED or path.startswith(assets.SCALER),
        {REASONS: advice.script()},
    )
