"""Reads the tokens by which the scaler knows its activators, from a file that may change.

The activator sends the first token of its file, and the scaler accepts each one of its own. So a
file with the new and the old token lets both sides change one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def bearers(file: str) -> Sequence[bytes]:
    """Return the values of ``Authorization`` for the tokens of a file.

    Arguments:
        file: its tokens are separated by white space.

    Raises:
        OSError: the file cannot be read, or has no token.
    """
    tokens = Path(file).read_bytes().split()
    if not tokens:
        raise OSError(f"{file} has no token")
    return [b"Bearer " + token for token in tokens]
