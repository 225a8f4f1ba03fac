"""Checks dashboards against Grafana's own schema, as its Foundation SDK for Python has it.

The SDK is generated from that schema. Its ``from_json`` accepts any value, and ignores unknown
fields. So this module compares the JSON with the annotations of the SDK's classes. The package
`@grafana/schema` on npm has only TypeScript declarations. They leave options and queries open.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from functools import cache
from inspect import signature
from types import ModuleType, NoneType, UnionType
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models import (
    dashboard,
    heatmap,
    prometheus,
    stat,
    table,
    timeseries,
    units,
)

#: The module of each kind of panel, with its options.
KINDS: Final[dict[str, ModuleType]] = {
    "heatmap": heatmap,
    "stat": stat,
    "table": table,
    "timeseries": timeseries,
}
#: Grafana's names of units.
UNITS: Final = frozenset(value for value in vars(units).values() if isinstance(value, str))
#: Fields that the schema lacks, and that Grafana writes and reads.
_ALSO: Final[dict[type, set[str]]] = {dashboard.VariableModel: {"definition"}}
#: The annotation of a panel's queries; each kind of data source has its own class.
_QUERIES: Final = list[prometheus.Dataquery]


def problems(whole: dict[str, Any]) -> list[str]:
    """Return each difference between a dashboard's JSON and the schema, with its place."""
    return [*_object(whole, dashboard.Dashboard, "")]


def _object(value: object, kind: type, at: str) -> Iterator[str]:
    """Yield the problems of a JSON object, as a class of the SDK."""
    if not isinstance(value, dict):
        yield f"{at}: {value!r} is no {kind.__name__}"
        return
    known = _fields(kind)
    also = _ALSO.get(kind, set())
    for name, inner in value.items():
        if name in known:
            yield from _value(inner, known[name], f"{at}.{name}")
        elif name not in also:
            yield f"{at}.{name}: {kind.__name__} has no such field"
    for name in sorted(_required(kind) - value.keys()):
        yield f"{at}: {kind.__name__} needs {name}"
    if kind is dashboard.Panel:
        yield from _panel(value, at)


def _panel(panel: dict[str, Any], at: str) -> Iterator[str]:
    """Yield the problems of the parts that depend on the kind of a panel."""
    module = KINDS.get(panel["type"])
    if module is None:
        yield f"{at}.type: {panel['type']!r} is unknown"
        return
    yield from _value(panel["targets"], _QUERIES, f"{at}.targets")
    yield from _object(panel["options"], module.Options, f"{at}.options")
    defaults = panel["fieldConfig"]["defaults"]
    if defaults.get("unit", "short") not in UNITS:
        yield f"{at}: {defaults['unit']!r} is no unit of Grafana"
    if "custom" in defaults:
        yield from _object(defaults["custom"], module.FieldConfig, f"{at}.custom")


@cache
def _fields(kind: type) -> dict[str, Any]:
    """Return the annotation of each field by its name in JSON."""
    hints = {k: v for each in reversed(kind.__mro__) for k, v in _hints(each).items()}
    return {_in_json(name): hint for name, hint in hints.items()}


@cache
def _required(kind: type) -> frozenset[str]:
    """Return the texts without a default in the schema: the SDK gives them an empty one."""
    defaults = {name: one.default for name, one in signature(kind).parameters.items()}
    hints = {name: hint for each in kind.__mro__ for name, hint in _hints(each).items()}
    return frozenset(
        _in_json(name) for name, hint in hints.items() if hint is str and defaults[name] == ""
    )


def _in_json(name: str) -> str:
    """Return the name of a field in JSON."""
    return re.sub(r"_(\w)", lambda found: found[1].upper(), name.removesuffix("_val"))


def _hints(kind: type) -> dict[str, Any]:
    return {} if kind is object else get_type_hints(kind)


def _value(value: object, hint: Any, at: str) -> Iterator[str]:
    """Yield the problems of a value with this annotation."""
    origin = get_origin(hint)
    if hint is object or hint is Any or hint == list[Dataquery]:
        return
    if origin in (Union, UnionType):
        yield from _alternatives(value, get_args(hint), at)
    elif origin is Literal:
        if value not in get_args(hint):
            yield f"{at}: {value!r} is none of {get_args(hint)}"
    elif origin in (list, dict):
        yield from _collection(value, origin, get_args(hint)[-1], at)
    elif isinstance(hint, type) and issubclass(hint, enum.Enum):
        if value not in {one.value for one in hint}:
            yield f"{at}: {value!r} is no {hint.__name__}"
    elif hint in (str, bool, int, float, NoneType):
        if not _is_plain(value, hint):
            yield f"{at}: {value!r} is no {hint.__name__}"
    else:
        yield from _object(value, hint, at)


def _is_plain(value: object, hint: type) -> bool:
    """Return whether a value has a type without parts; JSON's numbers include whole ones."""
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type(value) is hint


def _collection(value: object, kind: type, inner: Any, at: str) -> Iterator[str]:
    if isinstance(value, list) and kind is list:
        for number, one in enumerate(value):
            yield from _value(one, inner, f"{at}[{number}]")
    elif isinstance(value, dict) and kind is dict:
        for name, one in value.items():
            yield from _value(one, inner, f"{at}.{name}")
    else:
        yield f"{at}: {value!r} is no {kind.__name__}"


def _alternatives(value: object, hints: tuple[Any, ...], at: str) -> Iterator[str]:
    """Yield the problems of the alternative with fewest; none if one fits."""
    if dashboard.RowPanel in hints and isinstance(value, dict):
        hints = (dashboard.RowPanel if value.get("type") == "row" else dashboard.Panel,)
    elif value is not None:
        hints = tuple(hint for hint in hints if hint is not NoneType)
    found = [[*_value(value, hint, at)] for hint in hints]
    yield from min(found, key=len)
