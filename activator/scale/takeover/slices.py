"""The EndpointSlice of one Service: the object, the requests that write it, and its record.

It lists the activators, or the pods of a Service with route ``front``. Pure. The rules were seen on
a real control plane (Kubernetes 1.36) and in its consumers: each activator has all three
conditions, a node, no target (Istio ambient skips pods) and no hints. Sources: discovery.k8s.io/v1
EndpointSlice in the Kubernetes API reference; ``endpointslices/restricted`` is OpenShift's
admission plugin RestrictedEndpointsAdmission.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple, final

from activator.discovery.api_server import MERGE_PATCH, ApiRequest, Meaning, meaning_of
from activator.discovery.wire import not_newer
from activator.objects.fields import Field, root
from activator.plain.service import PROXY_LABEL, PlainService
from activator.plain.slices import MANAGED_BY_LABEL, OURS, PORT_ANNOTATION, SERVICE_LABEL, port_of
from activator.scale.reasons import Finding, ScaleReason
from activator.scale.reports.load import ServiceName
from activator.scale.wakers.waker import Rule

#: Proxies ignore a slice with this label.
HEADLESS_LABEL: Final = "service.kubernetes.io/headless"

#: More endpoints are refused by the API server with 422.
MOST_ENDPOINTS: Final = 1000
#: Each one is explicit: older ingress-nginx fails without, Traefik drops the endpoint.
_CONDITIONS: Final[Mapping[str, bool]] = {"ready": True, "serving": True, "terminating": False}
_LONGEST_NAME: Final = 253

#: Seconds until a failed write is repeated: the first time, and at most.
FIRST_RETRY: Final = 0.5
LAST_RETRY: Final = 60.0
#: Changes by other components within ``CONTEST`` seconds that make a slice contested.
MOST_EDITS: Final = 5
CONTEST: Final = 60.0
#: Seconds after which an API server certainly does not carry out a request whose response was
#: lost (``--request-timeout`` of kube-apiserver).
DOUBT: Final = 60.0
#: Seconds until a contested slice is written again, by the number of its changes. A Service without
#: a pod is unreachable that long, so the first pauses are short. One that lasts must cost little.
CONTESTED_PAUSES: Final = ((15, 10.0), (10, 3.0), (MOST_EDITS, 0.8))
_MOST_KEPT: Final = CONTESTED_PAUSES[0][0]

_RULE: Final = Rule("discovery.k8s.io", "endpointslices", ("create", "patch", "delete"))
_ENDPOINTS_RULE: Final = Rule("", "endpoints", ("delete",))
_RESTRICTED: Final = Rule("discovery.k8s.io", "endpointslices/restricted", ("create",))
#: What the absence of the slice means, by the method of the request.
_IF_ABSENT: Final = {"DELETE": Meaning.DONE, "PATCH": Meaning.CONFLICT}


class SliceFamily(Enum):
    """The type of a slice's addresses; a slice cannot change it."""

    IPV4 = "IPv4"
    IPV6 = "IPv6"


class ActivatorAddress(NamedTuple):
    """One activator that can take requests."""

    ip: str
    node: str


class Listing(NamedTuple):
    """The pods of one family, as an EndpointSlice lists them."""

    ports: Sequence[Any]
    endpoints: Sequence[Any]


class Stored(NamedTuple):
    """A slice of the scaler that exists.

    Attributes:
        port: the allotted port; 0 if the annotation is missing or wrong.
        addresses: its endpoints.
        content: a hash of all fields that the scaler writes; equal for equal fields.
    """

    port: int
    addresses: frozenset[str]
    version: str
    created: str
    uid: str
    content: int


def slice_name(service: str, family: SliceFamily) -> str:
    """Return the name of a Service's slice."""
    suffix = "-activator" if family is SliceFamily.IPV4 else "-activator-ipv6"
    return service[: _LONGEST_NAME - len(suffix)] + suffix


def name_parts(name: str) -> tuple[str, SliceFamily] | None:
    """Return the Service and the family of a slice's name; None for other slices."""
    for family in reversed(SliceFamily):
        suffix = slice_name("", family)
        if name.endswith(suffix) and name != suffix:
            return name.removesuffix(suffix), family
    return None


def stored(obj: object) -> Stored:
    """Return what a takeover slice stores.

    Raises:
        ManifestError: a field is wrong.
    """
    slice_ = root(obj, "EndpointSlice")
    metadata = slice_["metadata"]
    return Stored(
        port_of(metadata),
        frozenset(
            address.text()
            for endpoint in slice_["endpoints"].items()
            for address in endpoint["addresses"].items()
        ),
        metadata["resourceVersion"].text(),
        metadata["creationTimestamp"].text(),
        metadata["uid"].text(),
        content_of(slice_),
    )


def content_of(slice_: Field) -> int:
    """Return a hash of all fields that the scaler writes, for a comparison in this process.

    Raises:
        ManifestError: a field is wrong.
    """
    metadata = slice_["metadata"]
    labels = metadata["labels"]
    names = (SERVICE_LABEL, MANAGED_BY_LABEL, PROXY_LABEL)
    return hash(
        (
            *(labels.at(name).text() for name in names),
            labels.at(HEADLESS_LABEL).value is None,  # its presence counts, also without a value
            metadata["annotations"].at(PORT_ANNOTATION).text(),
            tuple(
                (owner["kind"].text(), owner["name"].text(), owner["uid"].text())
                for owner in metadata["ownerReferences"].items()
            ),
            slice_["addressType"].text(),
            *map(_text, slice_["ports"].sequence()),
            *sorted(map(_text, slice_["endpoints"].sequence())),
        )
    )


def _text(value: object) -> str:
    """Return a port or an endpoint as text, equal for equal ones; a null is no field."""
    fields = value.items() if isinstance(value, dict) else ()
    return json.dumps({name: each for name, each in fields if each is not None}, sort_keys=True)


def slice_object(
    service: PlainService,
    family: SliceFamily,
    port: int,
    activators: Sequence[ActivatorAddress],
    pods: Listing | None = None,
) -> Mapping[str, Any]:
    """Return the slice of a Service.

    Arguments:
        service: not refused, so it has a buffered port.
        port: the allotted port.
        activators: the activators of this family that take its requests now; none while its
            pods do.
        pods: the pods to list instead, with route ``front``.
    """
    assert service.port is not None
    if pods is None:
        ports = [{"name": service.port.name, "port": port, "protocol": "TCP"}]
        pods = Listing(ports, [_endpoint(each) for each in sorted(set(activators))])
    name, namespace = service.key.name, service.key.namespace
    labels = {SERVICE_LABEL: name, MANAGED_BY_LABEL: OURS}
    if service.proxy:
        labels[PROXY_LABEL] = service.proxy
    # Without blockOwnerDeletion, which some clusters forbid.
    owner = {"apiVersion": "v1", "kind": "Service", "name": name, "uid": service.uid}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": slice_name(name, family),
            "namespace": namespace,
            "labels": labels,
            "annotations": {PORT_ANNOTATION: str(port)},
            "ownerReferences": [owner],
        },
        "addressType": family.value,
        "ports": pods.ports,
        "endpoints": pods.endpoints[:MOST_ENDPOINTS],
    }


def _endpoint(activator: ActivatorAddress) -> Mapping[str, Any]:
    node = {"nodeName": activator.node} if activator.node else {}
    return {"addresses": [activator.ip], "conditions": dict(_CONDITIONS), **node}


def collection(namespace: str) -> str:
    """Return the path of a namespace's EndpointSlices."""
    return f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"


def create(wanted: Mapping[str, Any]) -> ApiRequest:
    """Return the request that creates a slice."""
    return ApiRequest("POST", collection(wanted["metadata"]["namespace"]), _encode(wanted))


def change(wanted: Mapping[str, Any], known: Stored) -> ApiRequest:
    """Return the request that changes a slice, unless it has another version meanwhile."""
    metadata = wanted["metadata"]
    absent = {PROXY_LABEL: None, HEADLESS_LABEL: None}
    body = {
        "metadata": {
            "resourceVersion": known.version,
            "labels": absent | metadata["labels"],
            "annotations": metadata["annotations"],
            "ownerReferences": metadata["ownerReferences"],
        },
        "ports": wanted["ports"],
        "endpoints": wanted["endpoints"],
    }
    path = f"{collection(metadata['namespace'])}/{metadata['name']}"
    return ApiRequest("PATCH", path, _encode(body), MERGE_PATCH)


def delete(namespace: str, name: str, uid: str) -> ApiRequest:
    """Return the request that deletes a slice, unless it is another object meanwhile."""
    preconditions = {"uid": uid} if uid else {}
    body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}
    return ApiRequest("DELETE", f"{collection(namespace)}/{name}", _encode(body))


def delete_endpoints(namespace: str, name: str) -> ApiRequest:
    """Return the request that deletes the Endpoints object of a Service."""
    return ApiRequest("DELETE", f"/api/v1/namespaces/{namespace}/endpoints/{name}", _encode({}))


def _encode(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


def meaning(method: str, status: int) -> Meaning:
    """Return what a response means for the slice.

    DONE: the API server has what was sent. CONFLICT: another component has changed, created or
    deleted the slice, and the watch brings the present one.

    Arguments:
        method: of the request.
        status: of the response; 0 if there was none.
    """
    found = meaning_of(status)
    if found is Meaning.ABSENT:
        return _IF_ABSENT.get(method, Meaning.REFUSED)
    return found


def failure(found: Meaning, status: int, message: str) -> Finding | None:
    """Return what a user must know of a failed request; None if it needs no user.

    Arguments:
        message: the text of the API server.
    """
    said = f"the API server refused the takeover slice ({status}: {message})"
    if found is Meaning.REFUSED:
        return Finding(ScaleReason.SLICE_REFUSED, said)
    if found is not Meaning.FORBIDDEN:
        return None
    rule, remedy = _RULE, "the scaler's ClusterRole must have"
    if "restricted" in message or "is not allowed" in message:
        rule, remedy = _RESTRICTED, "OpenShift also requires this rule in the scaler's ClusterRole:"
    elif message.startswith("endpoints "):
        rule = _ENDPOINTS_RULE
    return Finding(ScaleReason.SLICE_FORBIDDEN, f"{said}; {remedy} {rule.lacking()}")


class SliceKey(NamedTuple):
    """The identity of an EndpointSlice."""

    namespace: str
    name: str


class Write(NamedTuple):
    """A request that makes one slice what it must be; ``content`` as in ``Stored``."""

    key: SliceKey
    request: ApiRequest
    content: int | None = None


class Leave(Enum):
    """The wanted state of a slice, if it is no object.

    ABSENT: it must not exist. AS_IS: it must not be changed.
    """

    ABSENT = "absent"
    AS_IS = "as-is"


def key_of(name: ServiceName, family: SliceFamily) -> SliceKey:
    """Return the identity of a Service's slice of one address family."""
    return SliceKey(name.namespace, slice_name(name.name, family))


def keys_of(name: ServiceName) -> Sequence[SliceKey]:
    """Return the identities of a Service's slices, in the order of the families."""
    return [key_of(name, family) for family in SliceFamily]


def write_of(key: SliceKey, seen: Stored | None, wanted: Mapping[str, Any] | Leave) -> Write | None:
    """Return the request that gives a slice its wanted state; None if it has that state.

    Arguments:
        seen: the slice; None if it does not exist.
    """
    if wanted is Leave.ABSENT and seen is not None:
        return Write(key, delete(*key, seen.uid))
    if isinstance(wanted, Leave):
        return None
    content = content_of(root(wanted, "EndpointSlice"))
    if seen is None:
        return Write(key, create(wanted), content)
    if content == seen.content:
        return None
    return Write(key, change(wanted, seen), content)


class Holder(Enum):
    """What the API server has under the name of the slice.

    ABSENT: nothing. SCALER: a slice of the scaler. FOREIGN: a slice of another component. STALE:
    one of Kubernetes, which no controller updates.
    """

    ABSENT = "absent"
    SCALER = "scaler"
    FOREIGN = "foreign"
    STALE = "stale"


@final
@dataclass(slots=True, eq=False)
class SliceRecord:
    """One slice.

    Attributes:
        owner: the Service that the name belongs to.
        holder: as far as known.
        seen: the object; None if it does not exist.
        listed: since when it has listed each of its addresses.
        writes: whether a request is under way.
        not_before: when it may be written again.
    """

    owner: ServiceName
    family: SliceFamily
    holder: Holder = Holder.ABSENT
    seen: Stored | None = None
    listed: Mapping[str, float] = field(default_factory=dict)
    writes: bool = False
    not_before: float = float("-inf")
    _doubt_until: float = float("-inf")
    _failures: int = 0
    _edits: tuple[float, ...] = ()
    _finding: Finding | None = None

    def begin(self) -> None:
        """Begin to write: the changes so far are the ones of the last leader."""
        self._edits, self.not_before = (), float("-inf")

    def observe(self, seen: Stored, now: float, *, is_own: bool) -> bool:
        """Record the object.

        Arguments:
            now: seconds, monotonic.
            is_own: whether the scaler has made it.

        Returns:
            False for an older version than the known one: the watch is behind.
        """
        before = self.seen
        if before is not None and _is_older(seen, before):
            return False
        if before is None or before.version != seen.version:
            # A request for an earlier version now fails.
            self._failures, self.not_before, self._doubt_until = 0, float("-inf"), float("-inf")
            if before is not None and before.content != seen.content and not self.writes:
                self._edited(now)
        self.seen = seen
        self.holder = Holder.SCALER if is_own else Holder.FOREIGN
        addresses = seen.addresses if is_own else ()
        self.listed = {ip: self.listed.get(ip, now) for ip in addresses}
        return True

    def gone(self, now: float) -> None:
        """Record that the object does not exist."""
        if self.holder is Holder.STALE:  # until the watch confirms it
            self._pause(now)
            return
        if self.seen is not None and not self.writes:
            self._edited(now)
        self.seen, self.holder, self.listed = None, Holder.ABSENT, {}

    def succeeded(self, sent: int | None, now: float) -> None:
        """Record the end of a successful write, after the object of the response.

        Arguments:
            sent: ``Stored.content`` of the object that was sent; None after a deletion.
        """
        self._finding = None
        self._edits = tuple(at for at in self._edits if now - at < CONTEST)
        if sent is not None and (self.seen is None or self.seen.content != sent):
            self._edited(now)  # something between has changed it
            self._pause(now)

    def failed(self, meaning: Meaning, status: int, message: str, now: float) -> None:
        """Record a failed write; it is repeated after a pause, or when the object changes."""
        self._finding = failure(meaning, status, message)
        if meaning is Meaning.UNAVAILABLE:
            self._doubt_until = now + DOUBT
        self._pause(now)

    def is_certain(self, now: float) -> bool:
        """Return whether the object stays as it is known: no request may still change it."""
        return not self.writes and now >= self._doubt_until

    def findings(self) -> list[Finding]:
        """Return what a user must know of the slice."""
        name = slice_name(self.owner.name, self.family)
        if self.holder is Holder.FOREIGN:
            note = (
                f"EndpointSlice {name} belongs to another component, and the Service's route needs "
                f"the name; delete it, or use route shared"
            )
            return [Finding(ScaleReason.SLICE_NAME_TAKEN, note)]
        found = [self._finding] if self._finding else []
        if len(self._edits) >= MOST_EDITS:
            note = (
                f"another component keeps changing EndpointSlice {name}; find its name with: "
                f"kubectl get endpointslice {name} -o yaml --show-managed-fields"
            )
            found.append(Finding(ScaleReason.SLICE_CONTESTED, note))
        return found

    def _pause(self, now: float) -> None:
        pause = min(FIRST_RETRY * 2**self._failures, LAST_RETRY)
        self._failures = min(self._failures + 1, 10)
        self.not_before = max(self.not_before, now + pause)

    def _edited(self, now: float) -> None:
        recent = [at for at in self._edits if now - at < CONTEST]
        self._edits = (*recent[1 - _MOST_KEPT :], now)
        for count, pause in CONTESTED_PAUSES:
            if len(self._edits) >= count:
                self.not_before = now + pause
                return


def _is_older(seen: Stored, known: Stored) -> bool:
    """Return whether an object is an older version of the known one.

    Versions of one object can be compared as numbers (KEP-5504); other texts count as newer.
    """
    is_other = seen.uid != known.uid or seen.version == known.version
    return not is_other and not_newer(seen.version, known.version)
