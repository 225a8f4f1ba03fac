"""The rules by which the API server refuses an object, with its own texts.

Only rules are here that a program can break which writes these kinds. Kubernetes' counterpart:
pkg/apis/*/validation/validation.go.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from typing import Any, Final

from activator.lab.control_plane import api
from activator.lab.control_plane.store import matches

Object = dict[str, Any]

MOST_ENDPOINTS: Final = 1000
_MOST_ADDRESSES: Final = 100
_LONGEST_NOTE: Final = 1024
_LONGEST_WORD: Final = 128

_MICRO_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)$")
_SECONDS: Final = len("2026-01-01T00:00:00")
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
_SUBDOMAIN: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    r"for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LEADING_ZERO: Final = re.compile(r"(^|\.)0\d+(\.|$)")
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
_QUALIFIED: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_LABEL_TEXT: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)


def wrong_type(resource: api.ApiKind, found: Object) -> str:
    """Return why an object's JSON does not fit the kind's type; empty if it does."""
    version = found.get("metadata", {}).get("resourceVersion", "")
    if not isinstance(version, str):
        return unmarshal(version, "ObjectMeta.metadata.resourceVersion", "string")
    spec = found.get("spec")
    if resource.scalable and isinstance(spec, dict):
        replicas = spec.get("replicas", 0)
        if isinstance(replicas, bool) or not isinstance(replicas, int | None):
            return unmarshal(replicas, f"{resource.kind}Spec.spec.replicas", "int32")
    for time in _times(resource, found):
        if not isinstance(time, str) or not _MICRO_TIME.match(time):
            layout = "2006-01-02T15:04:05.000000Z07:00"
            rest = str(time)[_SECONDS:]
            return f'parsing time "{time}" as "{layout}": cannot parse "{rest}" as ".000000"'
    for value in (found.get("metadata", {}).get("annotations") or {}).values():
        if not isinstance(value, str):
            return unmarshal(value, "ObjectMeta.metadata.annotations", "string")
    return ""


def _times(resource: api.ApiKind, found: Object) -> Iterator[object]:
    if resource == api.LEASES:
        spec = found.get("spec") or {}
        yield from (spec[name] for name in ("acquireTime", "renewTime") if spec.get(name))
    if resource == api.EVENTS and found.get("eventTime"):
        yield found["eventTime"]


def unmarshal(value: object, field: str, wanted: str) -> str:
    """Return why a value of JSON does not fit a field of Go."""
    kinds = {bool: "bool", int: "number", str: "string", list: "array"}
    kinds[float] = f"number {value}"
    kind = kinds.get(type(value), "object")
    return f"json: cannot unmarshal {kind} into Go struct field {field} of type {wanted}"


def causes(
    resource: api.ApiKind, new: Object, old: Object | None, allows_loopback: bool
) -> list[str]:
    """Return why an object is refused, a text for each wrong field; empty if it is accepted.

    Arguments:
        new: the object, with defaults.
        old: the object that it replaces; None if it is created.
    """
    found = list(_metadata(resource, new))
    if check := _CHECKS.get(resource):
        found += check(new, old, allows_loopback)
    return found


def _metadata(resource: api.ApiKind, new: Object) -> Iterator[str]:
    name = new["metadata"].get("name", "")
    if not name:
        yield "metadata.name: Required value: name or generateName is required"
        return
    pattern, text = (_LABEL, _LABEL_TEXT) if resource == api.SERVICES else (_NAME, _SUBDOMAIN)
    if not pattern.match(name):
        yield f'metadata.name: Invalid value: "{name}": {text}'


def _service(new: Object, old: Object | None, allows_loopback: bool) -> Iterator[str]:
    spec = new["spec"]
    ports = spec.get("ports") or []
    if not ports and spec["type"] != "ExternalName" and spec.get("clusterIP") != "None":
        yield "spec.ports: Required value"
    for n, port in enumerate(ports):
        if not 1 <= (port.get("port") or 0) <= 65_535:
            for field in ("port", "targetPort"):  # the second is the first by default
                if port.get(field) == port.get("port"):
                    yield (
                        f"spec.ports[{n}].{field}: Invalid value: {port.get('port')}: "
                        "must be between 1 and 65535, inclusive"
                    )
        if len(ports) > 1 and not port.get("name"):
            yield f"spec.ports[{n}].name: Required value"


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _workload(new: Object, old: Object | None, allows_loopback: bool) -> Iterator[str]:
    spec = new["spec"]
    if spec["replicas"] < 0:
        yield (
            f"spec.replicas: Invalid value: {spec['replicas']}: must be greater than or equal to 0"
        )
    labels = (spec.get("selector") or {}).get("matchLabels") or {}
    if not labels and "selector" in spec:
        what = "statefulset" if "serviceName" in spec else "deployment"
        yield f"spec.selector: Invalid value: {{}}: empty selector is invalid for {what}"
    elif not labels:
        yield "spec.selector: Required value"
    elif not matches(labels, {"metadata": {}, **spec.get("template", {})}):
        yield (
            "spec.template.metadata.labels: Invalid value: "
            f"{_json(spec.get('template', {}).get('metadata', {}).get('labels'))}: "
            "`selector` does not match template `labels`"
        )
    if old is not None and spec.get("selector") != old["spec"].get("selector"):
        yield f"spec.selector: Invalid value: {_json(spec['selector'])}: field is immutable"


def _slice(new: Object, old: Object | None, allows_loopback: bool) -> Iterator[str]:
    kind = new.get("addressType", "")
    if not kind:
        yield "addressType: Required value"
    elif kind not in ("IPv4", "IPv6", "FQDN"):
        known = '"FQDN", "IPv4", "IPv6"'
        yield f'addressType: Unsupported value: "{kind}": supported values: {known}'
    if old is not None and kind != old.get("addressType"):
        yield f'addressType: Invalid value: "{kind}": field is immutable'
    endpoints = new["endpoints"] or []
    if len(endpoints) > MOST_ENDPOINTS:
        yield f"endpoints: Too many: {len(endpoints)}: must have at most {MOST_ENDPOINTS} items"
        return
    for n, endpoint in enumerate(endpoints):
        addresses = endpoint.get("addresses") or []
        if not addresses:
            yield f"endpoints[{n}].addresses: Required value: must contain at least 1 address"
        if len(addresses) > _MOST_ADDRESSES:
            yield (
                f"endpoints[{n}].addresses: Too many: {len(addresses)}: must have at most "
                f"{_MOST_ADDRESSES} items"
            )
        for m, address in enumerate(addresses):
            if kind != "FQDN" and (why := wrong_address(address, kind, allows_loopback)):
                is_other = why.startswith("must be an IP")
                where = f"endpoints[{n}].addresses" + ("" if is_other else f"[{m}]")
                yield f'{where}: Invalid value: "{address}": {why}'


def wrong_address(address: str, kind: str, allows_loopback: bool) -> str:
    """Return why an EndpointSlice of an address type cannot have an address; empty if it can."""
    if _LEADING_ZERO.search(address):
        return "must not have leading 0s"
    try:
        parsed = ip_address(address)
    except ValueError:
        return "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
    if f"IPv{parsed.version}" != kind:
        return f"must be an {kind} address"
    if parsed.is_unspecified:
        return f"may not be unspecified ({parsed})"
    if parsed.is_loopback and not allows_loopback:
        return "may not be in the loopback range (127.0.0.0/8, ::1/128)"
    if parsed.is_link_local:
        return "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
    if parsed.is_multicast:
        return "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
    return ""


def _lease(new: Object, old: Object | None, allows_loopback: bool) -> Iterator[str]:
    spec = new["spec"]
    seconds = spec.get("leaseDurationSeconds")
    if seconds is not None and seconds <= 0:
        yield f"spec.leaseDurationSeconds: Invalid value: {seconds}: must be greater than 0"
    transitions = spec.get("leaseTransitions") or 0
    if transitions < 0:
        yield (
            f"spec.leaseTransitions: Invalid value: {transitions}: "
            "must be greater than or equal to 0"
        )


def _event(new: Object, old: Object | None, allows_loopback: bool) -> Iterator[str]:
    if not new.get("eventTime"):
        yield "eventTime: Required value"
    for name in ("reportingController", "reportingInstance", "action", "reason"):
        value = new.get(name, "")
        if not value:
            yield f"{name}: Required value"
            if name == "reportingController":
                yield f'{name}: Invalid value: "": name part must be non-empty'
                yield f'{name}: Invalid value: "": {_QUALIFIED}'
        elif name != "reportingController" and len(value) > _LONGEST_WORD:
            yield f'{name}: Invalid value: "": can have at most {_LONGEST_WORD} characters'
    if new.get("type") not in ("Normal", "Warning"):
        yield f'type: Invalid value: "": has invalid value: {new.get("type", "")}'
    if len(new.get("note", "").encode()) > _LONGEST_NOTE:
        yield f'message: Invalid value: "": can have at most {_LONGEST_NOTE} characters'
    if old is not None:
        for name in ("eventTime", "reportingController", "reportingInstance", "action", "reason"):
            if new.get(name) != old.get(name):
                yield f'{name}: Invalid value: "{new.get(name)}": field is immutable'


_CHECKS: Final[dict[api.ApiKind, Callable[[Object, Object | None, bool], Iterator[str]]]] = {
    api.SERVICES: _service,
    api.DEPLOYMENTS: _workload,
    api.STATEFUL_SETS: _workload,
    api.SLICES: _slice,
    api.LEASES: _lease,
    api.EVENTS: _event,
}
