"""Label and field selectors of lists and watches.

Kubernetes' counterpart: staging/src/k8s.io/apimachinery/pkg/labels/selector.go.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from activator.lab.control_plane.status import bad_request

Object = dict[str, Any]
Test = Callable[[Object], bool]

_SET = re.compile(r"(\S+)\s+(in|notin)\s+\(([^)]*)\)$")
#: Splits at commas outside parentheses.
_COMMA = re.compile(r",(?![^(]*\))")
_FIELDS = {"metadata.name": "name", "metadata.namespace": "namespace"}


def selector(query: Mapping[str, str]) -> Test:
    """Return the test that a request's query makes of each object.

    Raises:
        ApiError: a field that the server does not select by.
    """
    tests = [_label_test(term.strip()) for term in _terms(query.get("labelSelector", ""))]
    tests += [_field_test(term) for term in _terms(query.get("fieldSelector", ""))]
    return lambda found: all(test(found) for test in tests)


def matches(labels: Mapping[str, str], found: Object) -> bool:
    """Return whether an object has all of these labels."""
    return labels.items() <= _labels(found).items()


def _terms(text: str) -> list[str]:
    return [term for term in _COMMA.split(text) if term.strip()]


def _labels(found: Object) -> dict[str, str]:
    return found["metadata"].get("labels") or {}


def _label_test(term: str) -> Test:
    if in_set := _SET.match(term):
        key, operator, values = in_set.groups()
        wanted = {value.strip() for value in values.split(",")}
        if operator == "in":
            return lambda found: _labels(found).get(key) in wanted
        return lambda found: _labels(found).get(key) not in wanted
    if "!=" in term:
        key, value = (part.strip() for part in term.split("!=", 1))
        return lambda found: _labels(found).get(key) != value
    if "=" in term:
        key, value = (part.strip() for part in re.split("==?", term, maxsplit=1))
        return lambda found: _labels(found).get(key) == value
    if term.startswith("!"):
        return lambda found: term[1:] not in _labels(found)
    return lambda found: term in _labels(found)


def _field_test(term: str) -> Test:
    path, is_equal, value = term.replace("==", "=").partition("=")
    negated = path.endswith("!")
    path = path.removesuffix("!")
    if not is_equal or path not in _FIELDS:
        raise bad_request(f"field label not supported: {path}")
    key = _FIELDS[path]
    return lambda found: (found["metadata"].get(key, "") == value) is not negated
