"""A control plane that refuses what the API server refuses: rights, conflicts and wrong objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from activator.lab.control_plane import api
from activator.lab.control_plane.plane import ControlPlane, PlaneCall, utc_now
from activator.lab.control_plane.store import PlaneWatch
from activator.lab.control_plane.writes import (
    MERGE_PATCH,
    WriteRequest,
    Writes,
    decoded,
    decoded_patch,
    merge,
)
from activator.lab.http1 import HttpResponse
from tests.control_plane import validation

Object = dict[str, Any]

#: The user of all requests, as a ServiceAccount appears in texts.
USER = "system:serviceaccount:activator:activator-scale"
#: The right that OpenShift demands for addresses in EndpointSlices.
_RESTRICTED: Final = api.Right("create", api.SLICES.group, "endpointslices/restricted")


class Faults:
    """The faults of one control plane; all are off at first.

    Attributes:
        user: the user in texts about missing rights.
    """

    def __init__(self) -> None:
        self.user = USER
        self._missing: set[api.Right] = set()
        self._granted: set[api.Right] | None = None
        self._conflicts: Counter[str] = Counter()

    def forbid(self, verb: str, resource: str, group: str) -> None:
        """Refuse a verb on a resource, as ``forbid("patch", "deployments/scale", "apps")``."""
        self._missing.add(api.Right(verb, group, resource))

    def allow(self, verb: str, resource: str, group: str) -> None:
        """End the effect of `forbid`."""
        self._missing.discard(api.Right(verb, group, resource))

    def grant_only(self, rights: set[api.Right] | None) -> None:
        """Refuse everything but these rights; None grants everything again."""
        self._granted = rights

    def may(self, right: api.Right) -> bool:
        """Return whether the user has a right."""
        return right not in self._missing and (self._granted is None or right in self._granted)

    def conflict(self, resource: api.ApiKind, times: int = 1) -> None:
        """Refuse the next writes of existing objects of a kind, as if each had just changed."""
        self._conflicts[resource.plural] += times

    def takes_conflict(self, resource: api.ApiKind) -> bool:
        """Return whether this write is refused, and count it."""
        if not self._conflicts[resource.plural]:
            return False
        self._conflicts[resource.plural] -= 1
        return True


class StrictControlPlane(ControlPlane):
    """The API server with its rules.

    Attributes:
        faults: switches of faults.
    """

    def __init__(
        self,
        resources: Iterable[api.ApiKind] = api.BUILT_IN,
        clock: Callable[[], datetime] = utc_now,
        *,
        allows_loopback: bool = False,
    ) -> None:
        """
        Arguments:
            allows_loopback: accept loopback addresses in EndpointSlices. Kubernetes refuses them.
        """
        super().__init__(resources, clock)
        self.faults = Faults()
        self.writes = StrictWrites(self.store, clock, self.faults, allows_loopback)

    def may(self, right: api.Right) -> bool:
        return self.faults.may(right)

    def respond(
        self, call: PlaneCall, context: WriteRequest, body: bytes
    ) -> HttpResponse | PlaneWatch:
        if not self.may(call.right):
            raise forbidden(context.place._replace(name=call.name), self.faults.user, call.verb)
        return super().respond(call, context, body)


@dataclass(frozen=True)
class StrictWrites(Writes):
    """Writes that refuse wrong objects, with the server's own texts."""

    faults: Faults
    allows_loopback: bool

    def create(self, context: WriteRequest, body: bytes) -> Object:
        self._expect_types(context, body)
        return super().create(context, body)

    def update(self, context: WriteRequest, body: bytes) -> tuple[Object, int]:
        if not context.place.subresource:
            self._expect_types(context, body)
        return super().update(context, body)

    def patch(self, context: WriteRequest, body: bytes) -> Object:
        place = context.place
        if context.content_type.partition(";")[0] == MERGE_PATCH and not place.subresource:
            change = decoded_patch(body)
            if why := validation.wrong_type(place.resource, merge(self.existing(place), change)):
                raise undecodable_patch(why)
        return super().patch(context, body)

    def scaled(self, context: WriteRequest, old: Object, scale: Object) -> Object:
        if not isinstance((scale.get("metadata") or {}).get("resourceVersion", ""), str):
            raise undecodable_patch(validation.wrong_type(context.place.resource, scale))
        check_replicas(scale)
        return super().scaled(context, old, scale)

    def expect_version(self, place: api.ApiPath, version: str, old: Object) -> None:
        super().expect_version(place, version, old)
        if self.faults.takes_conflict(place.resource):
            raise api.conflict(place.resource, place.name)

    def check(self, resource: api.ApiKind, new: Object, old: Object | None) -> None:
        super().check(resource, new, old)
        metadata = new["metadata"]
        name = metadata.get("name", "")
        if found := validation.causes(resource, new, old, self.allows_loopback):
            raise invalid(resource, name, found)
        if resource != api.SLICES or self.faults.may(_RESTRICTED):
            return
        same = old is not None and all(new[part] == old[part] for part in ("endpoints", "ports"))
        if new["endpoints"] and not same:
            place = api.ApiPath(resource, metadata.get("namespace", ""), name, "restricted")
            raise forbidden(place, self.faults.user, "create")

    def _expect_types(self, context: WriteRequest, body: bytes) -> None:
        resource = context.place.resource
        if why := validation.wrong_type(resource, decoded(body, resource.kind)):
            raise undecodable(resource, why)


def check_replicas(scale: Object) -> None:
    """Check the replicas that a written Scale requests.

    Raises:
        ApiError: they are no number, or below 0.
    """
    replicas = (scale.get("spec") or {}).get("replicas")
    if isinstance(replicas, bool) or not isinstance(replicas, int | None):
        raise undecodable_patch(validation.unmarshal(replicas, "ScaleSpec.spec.replicas", "int32"))
    if replicas is not None and replicas < 0:
        name = scale["metadata"].get("name", "")
        why = f"spec.replicas: Invalid value: {replicas}: must be greater than or equal to 0"
        raise api.invalid_named("Scale", "autoscaling", name, [why])


def invalid(resource: api.ApiKind, name: str, causes: list[str]) -> api.ApiError:
    """Return the error for an object with wrong fields, as `api.invalid_named` does."""
    # The strategy of Events in the server still has the kind of the old group.
    group = "" if resource.plural == "events" else resource.group
    return api.invalid_named(resource.kind, group, name, causes)


def undecodable_patch(why: str) -> api.ApiError:
    """Return the error for a patch after which a field has the wrong type."""
    return api.invalid_named("", "", "", [f'patch: Invalid value: "{{...}}": {why}'])


def undecodable(resource: api.ApiKind, why: str) -> api.ApiError:
    """Return the error for an object with a field of the wrong type."""
    kind = resource.kind
    text = f'{kind} in version "{resource.version}" cannot be handled as a {kind}: {why}'
    return api.ApiError(400, "BadRequest", text)


def forbidden(place: api.ApiPath, user: str, verb: str) -> api.ApiError:
    """Return the error for a request without rights; its details lack the subresource."""
    resource, name = place.resource, place.name
    what = f"{resource.plural}/{place.subresource}" if place.subresource else resource.plural
    where = f'in the namespace "{place.namespace}"' if place.namespace else "at the cluster scope"
    which = f'{resource.qualified} "{name}"' if name else resource.qualified
    text = (
        f'{which} is forbidden: User "{user}" cannot {verb} resource "{what}" in API group '
        f'"{resource.group}" {where}'
    )
    return api.ApiError(403, "Forbidden", text, api.details_of(resource, name))
