"""Has the remedy for each reason why a Service is not scaled, for the scaler's page."""

from __future__ import annotations

import json

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
