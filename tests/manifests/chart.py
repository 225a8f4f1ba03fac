"""The generated parts of the chart: ``values.schema.json``, and the table of its README.

``python -m tests.manifests.chart`` writes both, from ``values.yaml`` with its comments, from the
rules below, and from the settings of the programs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import yaml

from activator.scale.settings import SETTINGS as OF_THE_SCALER
from activator.settings.config import settings_of
from activator.settings.values import Kind
from tests.manifests.kustomize import MANIFESTS

CHART: Final = MANIFESTS / "chart"
SCHEMA: Final = CHART / "values.schema.json"
README: Final = CHART / "README.md"
HINT: Final = "`python -m tests.manifests.chart` writes schema and README"

Schema = dict[str, Any]
Path = tuple[str, ...]

#: Settings that the chart itself decides: names, ports, and the objects behind them.
OWNED: Final = frozenset(
    {
        *("POD_NAME", "POD_IP", "SYSTEM_NAMESPACE", "KUBECONFIG", "ACTIVATOR_LEASE_NAME"),
        "ACTIVATOR_ZONE",
        *("CONFIG_LOGGING_NAME", "CONFIG_OBSERVABILITY_NAME", "ACTIVATOR_DIALECT"),
        *("ACTIVATOR_HTTP_PORT", "ACTIVATOR_H2C_PORT", "ACTIVATOR_HTTPS_PORT", "PROFILING_PORT"),
        *("METRICS_PROMETHEUS_PORT", "ACTIVATOR_ADMIN_PORT", "ACTIVATOR_ADMIT_PORT"),
        *("ACTIVATOR_STAT_PORT", "ACTIVATOR_GRPC_PORT", "ACTIVATOR_EXTERNAL_METRICS_PORT"),
    }
)

_TEXT: Final[Schema] = {"type": "string"}
_OBJECT: Final[Schema] = {"type": "object"}
_TEXTS: Final[Schema] = {"type": "object", "additionalProperties": _TEXT}
_OBJECTS: Final[Schema] = {"type": "array", "items": _OBJECT}
_NAMES: Final[Schema] = {
    "type": "array",
    "minItems": 1,
    "items": {"type": "string", "minLength": 1},
}
_COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
_AT_LEAST_ONE: Final[Schema] = {"type": "integer", "minimum": 1}
_SHARE: Final[Schema] = {"type": ["integer", "string"], "minimum": 0, "pattern": r"^\d+%$"}
_AMOUNTS: Final[Schema] = {
    "type": "object",
    "additionalProperties": {"type": ["string", "number", "null"]},
}
#: The words of Go's strconv.ParseBool.
_BOOLEANS: Final = (
    "",
    *("true", "True", "TRUE", "t", "T", "1"),
    *("false", "False", "FALSE", "f", "F", "0"),
)
#: Values by their last name. Objects of Kubernetes stay open: the API server checks them.
_BY_NAME: Final[Mapping[str, Schema]] = {
    **dict.fromkeys(("annotations", "labels", "commonLabels", "nodeSelector"), _TEXTS),
    "podAnnotations": _TEXTS,
    # The selectors use these two labels.
    "podLabels": {**_TEXTS, "propertyNames": {"not": {"enum": ["app", "role"]}}},
    **dict.fromkeys(("startupProbe", "readinessProbe", "livenessProbe", "affinity"), _OBJECT),
    **dict.fromkeys(("podSecurityContext", "securityContext"), _OBJECT),
    "resources": {
        "type": "object",
        "additionalProperties": False,
        "properties": {"limits": _AMOUNTS, "requests": _AMOUNTS, "claims": _OBJECTS},
    },
    **dict.fromkeys(("extraEnv", "tolerations", "topologySpreadConstraints"), _OBJECTS),
    **dict.fromkeys(("volumes", "volumeMounts", "extraContainers", "extraEgress"), _OBJECTS),
    **dict.fromkeys(("gateways", "knativeGateways"), _NAMES),
    **dict.fromkeys(("minReplicas", "maxReplicas", "cpuUtilization"), _AT_LEAST_ONE),
    **dict.fromkeys(("replicas", "terminationGracePeriodSeconds"), _COUNT),
    **dict.fromkeys(("minAvailable", "maxUnavailable"), _SHARE),
    "interval": {"type": "string", "pattern": r"^(\d+(ms|[smhd]))+$"},
    "runbookUrl": {"type": "string", "pattern": "^(https?://.+)?$"},
    "dialect": {"enum": ["services", "knative", "both"]},
    "digest": {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
    "pullPolicy": {"enum": ["", "Always", "IfNotPresent", "Never"]},
    "pullSecrets": {
        "type": "array",
        "items": {
            "type": "object",
            "additionalProperties": False,
            "required": ["name"],
            "properties": {"name": _TEXT},
        },
    },
}
#: Settings by the name of their written form in ``--help``.
_BY_FORM: Final[Mapping[str, Schema]] = {
    "true|false": {"type": ["boolean", "string"], "enum": [True, False, *_BOOLEANS]},
    # A number lacks the unit.
    "DURATION": {
        "type": "string",
        "pattern": r"^(|0|(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$",
    },
    "SIZE": {
        "type": ["string", "integer"],
        "minimum": 1,
        "pattern": "^(|[0-9]+([kKmMgG]i?)?[bB]?)$",
    },
}


class Value(NamedTuple):
    """One value of the chart."""

    path: Path
    default: Any
    comment: str


def values() -> list[Value]:
    """Return all values in the order of ``values.yaml``, each with the comment above it."""
    text = (CHART / "values.yaml").read_text()
    comments = dict(_comments(text))
    return [*_leaves((), yaml.load(text, yaml.CSafeLoader), comments)]


def _comments(text: str) -> Iterator[tuple[Path, str]]:
    """Yield each key that has a comment right above it, by its path."""
    path: list[str] = []
    comment: list[str] = []
    for line in text.splitlines():
        if found := re.match(r" *# (.*)", line):
            comment.append(found[1])
            continue
        if found := re.match(r"( *)([\w./-]+):", line):
            path[len(found[1]) // 2 :] = [found[2]]
            if comment:
                yield tuple(path), " ".join(comment)
        comment = []


def _leaves(path: Path, value: Any, comments: Mapping[Path, str]) -> Iterator[Value]:
    if path in comments:
        yield Value(path, value, comments[path])
        return
    assert isinstance(value, dict), f"{'.'.join(path)} has no comment in values.yaml"
    for name, inner in value.items():
        yield from _leaves((*path, name), inner, comments)


def schema() -> Schema:
    """Return the schema of the values: closed, except the objects of Kubernetes."""
    root: Schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Values of the chart activator",
        **_closed(),
    }
    # Helm hands the global values of a parent chart to each chart.
    root["properties"]["global"] = {**_OBJECT, "description": "Values of a parent chart; not used."}
    for value in values():
        at = root
        for name in value.path[:-1]:
            at = at["properties"].setdefault(name, _closed())
        at["properties"][value.path[-1]] = {"description": value.comment, **_of(value)}
    return root


def _closed() -> Schema:
    return {"type": "object", "additionalProperties": False, "properties": {}}


def _of(value: Value) -> Schema:
    name = value.path[-1]
    if name == "settings":
        return _settings(value.path[0])
    if name in _BY_NAME:
        return _BY_NAME[name]
    return {"type": {bool: "boolean", str: "string"}[type(value.default)]}


def _settings(program: str) -> Schema:
    rows = settings_of("run") if program == "activator" else OF_THE_SCALER
    properties = {
        row.variable: {"description": row.meaning, **_of_kind(row.kind)}
        for row in rows
        if row.variable not in OWNED
    }
    if "ACTIVATOR_TAKEOVER_PORTS" in properties:  # the network policy reads it, too
        properties["ACTIVATOR_TAKEOVER_PORTS"] |= {"type": "string", "pattern": r"^\d+-\d+$"}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _of_kind(kind: Kind[Any]) -> Schema:
    """Return the schema of one form; the program accepts less, and an empty text as no setting."""
    if kind.metavar == "NUMBER" and kind.accepts.startswith("a whole number"):
        return {"type": ["string", "integer"], "minimum": 0, "pattern": "^[0-9]*$"}
    return _BY_FORM.get(kind.metavar, {"type": ["string", "number", "boolean"]})


def schema_text() -> str:
    """Return the file of the schema."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def table() -> str:
    """Return the table of values for the README; a value of both programs has one row."""
    known = values()
    by_path = {value.path: value for value in known}
    rows = []
    for value in known:
        program, *rest = value.path
        twin = by_path.get(("scaler" if program == "activator" else "activator", *rest))
        both = twin is not None and (twin.default, twin.comment) == (value.default, value.comment)
        if both and program == "scaler":
            continue
        names = f"`{'.'.join(value.path)}`" + (f", `scaler.{'.'.join(rest)}`" if both else "")
        rows.append(f"| {names} | {_default(value.default)} | {_cell(value.comment)} |\n")
    return "| value | default | meaning |\n|---|---|---|\n" + "".join(rows)


def _default(value: Any) -> str:
    text = json.dumps(value)
    return f"`{text}`" if len(text) <= 60 else "see `values.yaml`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def with_table(page: str) -> str:
    """Return a page with the present table between its two marks."""
    marks = r"(?<=<!-- values -->\n).*?(?=<!-- /values -->)"
    return re.sub(marks, lambda _: table(), page, flags=re.DOTALL)


if __name__ == "__main__":
    SCHEMA.write_text(schema_text())
    README.write_text(with_table(README.read_text()))
