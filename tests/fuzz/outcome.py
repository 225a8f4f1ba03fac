"""What a parser made of its input, written so that two builds can be compared."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final

OURS: Final = ("activator", "throttler")
#: Words of an error that a build may choose: the compiled one checks types itself.
_OWN_WORDS: Final = (TypeError, IndexError, AttributeError)


def outcome(parse: Callable[[Sequence[bytes]], Any], pieces: Sequence[bytes]) -> str:
    """Return what a parser returns, or what it raises."""
    try:
        return described(parse(pieces))
    except Exception as error:
        return described(error)


def digest(text: str) -> str:
    """Return a short name of an outcome."""
    return hashlib.blake2b(text.encode("utf-8", "backslashreplace"), digest_size=8).hexdigest()


def described(value: Any) -> str:
    """Return a value as text: the same text for equal values of the same types."""
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if value is None or type(value) in (bytes, str, int, bool, float):
        return repr(value)
    if isinstance(value, dict):
        items = (f"{described(key)}: {described(each)}" for key, each in value.items())
        return f"{type(value).__name__}{{{', '.join(items)}}}"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}({', '.join(map(described, value))})"
    if isinstance(value, set | frozenset):
        return f"{type(value).__name__}({', '.join(sorted(map(described, value)))})"
    if isinstance(value, BaseException):
        text = "" if isinstance(value, _OWN_WORDS) else str(value)
        return f"raise {type(value).__name__}({text!r}, {_attributes(value)})"
    if type(value).__module__.partition(".")[0] in OURS:
        return f"{type(value).__name__}({_attributes(value)})"
    return f"a {type(value).__name__}"


def _attributes(value: Any) -> str:
    names = {
        name
        for base in type(value).__mro__
        if base.__module__.partition(".")[0] in OURS
        for name in (*getattr(base, "__annotations__", ()), *vars(base))
        if not name.startswith("_")
    }
    names |= getattr(value, "__dict__", {}).keys()
    return ", ".join(
        f"{name}={described(getattr(value, name))}"
        for name in sorted(names)
        if hasattr(value, name) and not callable(getattr(value, name))
    )
