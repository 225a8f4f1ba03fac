"""Detects another component that sets a workload to zero replicas while it is active.

Pure. A GitOps controller that applies ``spec.replicas: 0`` again undoes each cold start. The writer
is in ``metadata.managedFields`` of the workload, unless it wrote through the scale subresource, as
KEDA, an HPA and ``kubectl scale`` do. A workload that no watch follows is not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, final

from activator.objects.fields import ManifestError, ObjectKey, root
from activator.scale.decisions.findings import Finding, Reason
from activator.scale.owners.owners import Scaled

#: Seconds for which the finding stays.
STAYS: Final = 600.0

_GROUP: Final = "apps"


@final
class Flapping:
    """The workloads of the group ``apps`` (objects.View).

    Arguments:
        is_active: returns whether a workload must not be scaled to zero: it has requests, or a
            cold start is under way. The scaler itself never scales such a workload to zero.
        clock: seconds, monotonic.
        changed: called with a workload that another component has set to zero.
    """

    def __init__(
        self,
        is_active: Callable[[Scaled], bool],
        clock: Callable[[], float],
        changed: Callable[[Scaled], object],
    ) -> None:
        self._is_active = is_active
        self._clock = clock
        self._changed = changed
        self._awake: set[Scaled] = set()
        self._found: dict[Scaled, tuple[float, Finding]] = {}

    def put(self, key: ObjectKey, obj: object) -> None:
        """Record a new or changed workload.

        Arguments:
            obj: as decoded from JSON, with its ``managedFields``.

        Raises:
            ManifestError: ``spec.replicas`` is wrong; nothing has changed.
        """
        target = Scaled(key.namespace, _GROUP, key.kind, key.name)
        replicas = root(obj, key.kind)["spec"]["replicas"]
        if replicas.whole(minimum=0, maximum=2**31 - 1, default=1):
            self._awake.add(target)
        elif target in self._awake:
            self._awake.remove(target)
            if self._is_active(target):
                self._found[target] = self._clock(), _finding(target, replicas_manager(obj))
                self._changed(target)

    def remove(self, key: ObjectKey) -> None:
        """Record a deleted workload; an unknown one is no error."""
        target = Scaled(key.namespace, _GROUP, key.kind, key.name)
        self._awake.discard(target)
        self._found.pop(target, None)

    def finding(self, target: Scaled) -> Finding | None:
        """Return what a user must know of a workload; None if nothing sets it to zero."""
        at, found = self._found.get(target, (0.0, None))
        if found is not None and self._clock() - at > STAYS:
            del self._found[target]
            return None
        return found


def _finding(target: Scaled, manager: str) -> Finding:
    if manager:
        cause = (
            f"the field manager {manager} has written spec.replicas; remove the field from its "
            f"source, or let it ignore the difference"
        )
    else:
        cause = (
            "no field manager has spec.replicas, so the writer used the scale subresource: KEDA, "
            "an HPA or kubectl scale"
        )
    note = f"another component set {target.kind} {target.name} to 0 replicas while it was active"
    return Finding(Reason.REPLICAS_RESET, f"{note}; {cause}")


def replicas_manager(obj: object) -> str:
    """Return the field manager that wrote ``spec.replicas`` last; empty if none has it."""
    try:
        entries = root(obj, "workload")["metadata"]["managedFields"].sequence()
    except ManifestError:
        return ""
    found = [
        (str(entry.get("time") or ""), str(entry.get("manager") or "unknown")[:128])
        for entry in entries
        if isinstance(entry, Mapping) and not entry.get("subresource") and _has_replicas(entry)
    ]
    return max(found)[1] if found else ""


def _has_replicas(entry: Mapping[str, object]) -> bool:
    fields = entry.get("fieldsV1")
    spec = fields.get("f:spec") if isinstance(fields, Mapping) else None
    return isinstance(spec, Mapping) and "f:replicas" in spec
