"""Has the files of the scaler's page: its modules, shared ones of the dashboard, and reasons."""

from __future__ import annotations

import json
from functools import cache
from typing import Final

from activator.admin import assets
from activator.scale.reasons import QUIET, ScaleReason


def script() -> str:
    """Return the source of the page's module ``reasons.js``."""
    rows = {
        reason.value: {
            "meaning": reason.sentence,
            "quiet": reason in QUIET,
            "advice": reason.advice,
            "commands": reason.commands,
        }
        for reason in ScaleReason
    }
    return f"export const REASONS = {json.dumps(rows, indent=2)};\n"


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
        {REASONS: script()},
    )
