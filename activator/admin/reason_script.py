"""Make the dashboard's module ``reasons.js`` from the table of reasons.

The browser gets the same texts as ``activator explain``. Must not know how files are served.
"""

from __future__ import annotations

import json

from throttler import reason
from throttler.reason import TABLE, ReasonRow


def script() -> str:
    """Return the source of the module with the names that ``words.js`` imports."""
    rows = {
        row.reason.value: {
            "meaning": {
                "revision": row.title(is_service=False),
                "service": row.title(is_service=True),
            },
            "revision": _steps(row, is_service=False),
            "service": _steps(row, is_service=True),
            "inFolder": {
                "revision": row.folder_step(is_service=False),
                "service": row.folder_step(is_service=True),
            },
        }
        for row in TABLE
    }
    values = {
        "REASONS": rows,
        "AT_ZERO": reason.AT_ZERO,
        "NO_SERVER": reason.NO_SERVER,
        "OF_STARTS": reason.OF_STARTS,
        "STARTING": reason.STARTING,
        "HARMLESS": reason.HARMLESS,
        "LISTS_PODS": reason.LISTS_PODS,
        "DELETED": {"revision": reason.DELETED, "service": reason.DELETED_SERVICE},
    }
    return "".join(
        f"export const {name} = {json.dumps(value)};\n" for name, value in values.items()
    )


def _steps(row: ReasonRow, *, is_service: bool) -> dict[str, object]:
    advice, commands = row.steps(is_service=is_service)
    return {"advice": advice, "commands": commands}
