"""The recording: a conversation with the real API server, and how another one differs from it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

Object = dict[str, Any]

RECORDING: Final = Path(__file__).parent / "recording.json"
_ABSENT: Final = "(absent)"


class Difference(NamedTuple):
    """One value that differs; ``exchange`` has speaker, method, path and query."""

    number: int
    exchange: str
    status: int
    place: str
    wanted: object
    found: object

    def __str__(self) -> str:
        return f"{self.number} {self.exchange}\n  {self.place}: {self.found!r}, not {self.wanted!r}"

    @property
    def field(self) -> str:
        """The last name of the place."""
        return self.place.rpartition(".")[2]

    @property
    def is_missing(self) -> bool:
        """Whether the response lacks a field that the real one has."""
        return self.found == _ABSENT


def load() -> list[Object]:
    """Return the recorded exchanges."""
    found: list[Object] = json.loads(RECORDING.read_text())
    return found


def differences(wanted: list[Object], found: list[Object]) -> Iterator[Difference]:
    """Yield each difference between two conversations."""
    for number, (want, have) in enumerate(zip(wanted, found, strict=False)):
        for place, *values in _different(want, have, ""):
            yield Difference(number, name_of(want), want["status"], place, *values)
    if len(wanted) != len(found):
        yield Difference(len(found), "end", 0, "exchanges", len(wanted), len(found))


def name_of(exchange: Object) -> str:
    """Return speaker, method, path and query of an exchange."""
    query = "&".join(f"{key}={value}" for key, value in exchange.get("query", {}).items())
    path = exchange["path"] + (f"?{query}" if query else "")
    return f"{exchange['speaker']} {exchange['method']} {path}"


def _different(wanted: Any, found: Any, where: str) -> Iterator[tuple[str, object, object]]:
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key in sorted(wanted.keys() | found.keys()):
            place = f"{where}.{key}" if where else key
            yield from _different(wanted.get(key, _ABSENT), found.get(key, _ABSENT), place)
    elif isinstance(wanted, list) and isinstance(found, list) and _same(wanted, found):
        for number, (want, have) in enumerate(zip(wanted, found, strict=True)):
            yield from _different(want, have, f"{where}[{number}]")
    elif wanted != found:
        yield where, _brief(wanted), _brief(found)


def _same(wanted: list[Any], found: list[Any]) -> bool:
    return [_identity(each) for each in wanted] == [_identity(each) for each in found]


def _brief(found: Any) -> Any:
    """Return only the identities of the objects in a list."""
    return [_identity(each) for each in found] if isinstance(found, list) else found


def _identity(found: Any) -> object:
    """Return type and name of an event or of an object; all other values are alike."""
    if not isinstance(found, dict):
        return found if isinstance(found, str) else None
    metadata = found.get("object", found).get("metadata", {})
    return found.get("type"), metadata.get("name", found.get("name")), metadata.get("uid")
