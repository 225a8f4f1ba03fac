"""Make the dashboard's module ``reasons.js`` from the table of reasons.

The browser gets the same texts as ``activator explain``. Must not know how files are served.
"""

from __future__ import annotations

import json

from throttler.reason import AT_ZERO, DELETED, DELETED_SERVICE, OF_STARTS, STARTING, TABLE, Row


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
    return (
        f"export const REASONS = {json.dumps(rows, indent=2)};\n"
        f"export const AT_ZERO = {json.dumps(AT_ZERO)};\n"
        f"export const OF_STARTS = {json.dumps(OF_STARTS)};\n"
        f"export const STARTING = {json.dumps(STARTING)};\n"
        f"export const DELETED = {json.dumps({'revision': DELETED, 'service': DELETED_SERVICE})};\n"
    )


def _steps(row: Row, *, is_service: bool) -> dict[str, object]:
    advice, commands = row.steps(is_service=is_service)
    return {"advice": advice, "commands": commands}
