"""Lists the kinds of Knative's dialect: Revisions, and the objects that list their pods.

A further kind needs a further row. Must not know where objects come from, nor which are in force.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from activator.discovery import endpoint_slices, endpoints, object_warnings, services
from activator.discovery.aggregate import Aggregates
from activator.discovery.destinations import PrivateEndpoints, PublicEndpoints
from activator.discovery.dialect import Dialect, Kind, Scope
from activator.discovery.sink import Sink, SystemSink
from activator.knative import revisions
from activator.knative.labels import REVISION_LABEL, SERVING_GROUP
from activator.knative.names import names_private_service
from activator.objects.fields import ObjectKey
from throttler.model import AppProtocol, Revision, RevisionKind

# -- revisions ----------------------------------------------------------------------------------


def _parse_revision(key: ObjectKey, obj: object, scope: Scope) -> Revision:
    return revisions.parse(obj, scope.readiness_policy)


def _put_revision(
    state: Aggregates, key: ObjectKey, old: Revision | None, new: Revision | None
) -> None:
    if new is not None:
        state.sink.set_revision(new)
        state.services.add_revision(new.id)
    elif old is not None:
        state.services.remove_revision(old.id)
        state.sink.delete_revision(old.id)


# -- Services -----------------------------------------------------------------------------------

_Addresses = Mapping[AppProtocol, str]


def _parse_service(key: ObjectKey, obj: object, scope: Scope) -> _Addresses | None:
    return services.parse(obj) if names_private_service(key.name) else None


def _put_service(
    state: Aggregates, key: ObjectKey, old: _Addresses | None, new: _Addresses | None
) -> None:
    state.services.put(key, new or {})


# -- Endpoints and EndpointSlices ---------------------------------------------------------------

_Listed = PrivateEndpoints | PublicEndpoints


def _parse_endpoints(key: ObjectKey, obj: object, scope: Scope) -> _Listed | None:
    return endpoints.parse(obj)


def _parse_slice(key: ObjectKey, obj: object, scope: Scope) -> _Listed | None:
    return endpoint_slices.parse(obj)


def _put_endpoints(
    state: Aggregates, key: ObjectKey, old: _Listed | None, new: _Listed | None
) -> None:
    state.endpoints.remove(key, old)
    state.endpoints.put(key, new)


def _make_state(sink: Sink, system: SystemSink, scope: Scope) -> Aggregates:
    return Aggregates(sink, scope.endpoints, scope.family)


KNATIVE: Final = Dialect(
    "knative",
    "Revision",
    RevisionKind.REVISION,
    REVISION_LABEL,
    {
        "Revision": Kind(
            SERVING_GROUP, _parse_revision, _put_revision, object_warnings.of_revision
        ),
        "Service": Kind("", _parse_service, _put_service),
        "Endpoints": Kind("", _parse_endpoints, _put_endpoints, object_warnings.of_endpoints),
        "EndpointSlice": Kind(
            "discovery.k8s.io", _parse_slice, _put_endpoints, object_warnings.of_slice
        ),
    },
    _make_state,
)
