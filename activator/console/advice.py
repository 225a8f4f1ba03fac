"""Return the meaning of a reason, and the first steps, as lines for a terminal.

The texts are the rows of throttler/reason.py; the pages in docs/reasons say more. Must not know
how the console reads or draws a response.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from shlex import quote
from typing import Final

from throttler.reason import TABLE

_PLACEHOLDER: Final = re.compile(r"\{(namespace|name|pods|folder)\}")
_ROWS: Final = {row.reason.value: row for row in TABLE}


def meaning(reason: str, *, is_service: bool = False) -> str:
    """Return a reason as a sentence; empty for an unknown word, of a newer activator.

    Arguments:
        is_service: whether a plain Service has the reason.
    """
    return _ROWS[reason].title(is_service=is_service) if reason in _ROWS else ""


def what_to_do(
    reason: str,
    namespace: str,
    name: str,
    folder: str = "",
    *,
    pods: str = "",
    is_service: bool = False,
) -> list[str]:
    """Return the first steps, in lines; none for an unknown word.

    Arguments:
        is_service: whether the name is that of a plain Service.
        folder: the folder that the objects come from; empty for a cluster.
        pods: the Service whose EndpointSlices list the pods; empty for the plain Service itself.
    """
    if reason not in _ROWS:
        return []
    row = _ROWS[reason]
    words = {"namespace": quote(namespace), "name": quote(name)}  # for a shell
    words |= {"pods": quote(pods or name), "folder": folder}
    if folder and (step := row.folder_step(is_service=is_service)):
        return [_filled(step, words)]
    sentence, commands = row.steps(is_service=is_service)
    return [sentence, *(_filled(each, words) for each in commands)]


def _filled(text: str, words: Mapping[str, str]) -> str:
    """Return a text with its placeholders replaced. All other braces stay: commands have some."""
    return _PLACEHOLDER.sub(lambda found: words[found[1]], text)


def page_of(reason: str) -> str:
    """Return the command that prints the page about a reason, also for an unknown word."""
    return f"activator reason {reason}"
