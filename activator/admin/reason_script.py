"""Make the dashboard's module ``reasons.js`` from the table of reasons.

The browser gets the same texts as ``activator explain``. Must not know how files are served.
"""

from __future__ import annotations

import json

from throttler.reason import AT_ZERO, DELETED, TABLE


def script() -> str:
    """Return the source of the module with the names that ``words.js`` imports."""
    rows = {
        row.reason.value: {
            "meaning": row.meaning,
            "advice": row.advice,
            "commands": row.commands,
            "inFolder": row.in_folder,
        }
        for row in TABLE
    }
    return (
        f"export const REASONS = {json.dumps(rows, indent=2)};\n"
        f"export const AT_ZERO = {json.dumps(AT_ZERO)};\n"
        f"export const DELETED = {json.dumps(DELETED)};\n"
    )
