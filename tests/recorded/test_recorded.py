"""The lab's API server responds as the recorded real one."""

from __future__ import annotations

from activator.lab.control_plane.api import BUILT_IN, SCALED_OBJECTS, SERVICES, Right
from activator.lab.control_plane.plane import PlaneServer
from tests.control_plane.strict import Faults, StrictControlPlane
from tests.manifests.kustomize import MANIFESTS, build
from tests.manifests.test_rbac import grants
from tests.recorded.conversation import SYSTEM, converse
from tests.recorded.recording import Difference, differences, load
from tests.recorded.talk import Talk, normalised

#: The Deployment whose ServiceAccount each speaker has.
DEPLOYMENTS = {"scaler": "activator-scale", "activator": "activator"}
#: The Service that the real API server makes for itself.
KUBERNETES = {
    "metadata": {
        "name": "kubernetes",
        "labels": {"component": "apiserver", "provider": "kubernetes"},
    },
    "spec": {
        "clusterIP": "10.96.0.1",
        "ports": [{"name": "https", "port": 443, "targetPort": 6443}],
    },
}

#: Fields of objects that the lab leaves out, and why no program misses them.
LEFT_OUT = {
    **dict.fromkeys(
        (
            *("gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler", "emulationMajor"),
            *("emulationMinor", "minCompatibilityMajor", "minCompatibilityMinor"),
        ),
        "of the version they read only gitVersion",
    ),
    **dict.fromkeys(
        ("clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"),
        "the lab's proxy has one address family and one node",
    ),
    **dict.fromkeys(
        ("revisionHistoryLimit", "progressDeadlineSeconds", "strategy", "updateStrategy"),
        "the lab's Deployments have one ReplicaSet",
    ),
    "podManagementPolicy": "the lab runs no StatefulSets",
    "persistentVolumeClaimRetentionPolicy": "the lab has no volumes",
    **dict.fromkeys(
        (
            *("securityContext", "schedulerName", "restartPolicy", "dnsPolicy", "priority"),
            *("enableServiceLinks", "preemptionPolicy", "serviceAccount", "tolerations"),
            *("imagePullPolicy", "resources", "terminationMessagePath"),
            "terminationMessagePolicy",
        ),
        "the lab's kubelet starts a process, with none of these choices",
    ),
    **dict.fromkeys(
        ("deprecatedFirstTimestamp", "deprecatedLastTimestamp", "deprecatedSource"),
        "fields of the old kind of Events",
    ),
    "reason": "of an access review they read only whether it is allowed",
}
#: Exchanges in which the lab responds differently, and why.
_NAMES = "the lab's rights have no namespaces and no names"
OTHERWISE = {
    "scaler PUT /apis/coordination.k8s.io/v1/namespaces/activator-system/leases/other": _NAMES,
    "scaler PATCH /api/v1/namespaces/shop/pods/scale-1": _NAMES,
    "stranger GET /api/v1/services": "the lab has no tokens",
    "activator GET /api/v1/services?limit=2&continue=PAGE": (
        "the lab has no token for the rest of a compacted list: clients begin again"
    ),
}


class Rights:
    """Gives the lab's one user the rights of the next speaker."""

    def __init__(self, faults: Faults) -> None:
        objects = build(MANIFESTS / "overlays" / "services")
        self._faults = faults
        self._of = {
            speaker: {Right(each.verb, each.group, each.resource) for each in grants(objects, name)}
            for speaker, name in DEPLOYMENTS.items()
        }

    def use(self, speaker: str) -> None:
        self._faults.user = f"system:serviceaccount:{SYSTEM}:{DEPLOYMENTS.get(speaker, 'admin')}"
        self._faults.grant_only(self._of.get(speaker))


async def test_lab() -> None:
    plane = StrictControlPlane((*BUILT_IN, SCALED_OBJECTS._replace(scalable=True)))
    server = PlaneServer(plane)
    await server.start()

    async def compact() -> None:
        plane.store.compact()

    url = f"http://{server.host}:{server.port}"
    plane.act("create", SERVICES, "default", "", KUBERNETES)
    talk = Talk(url, {}, compact, begins=Rights(plane.faults).use)
    try:
        await converse(talk)
    finally:
        await talk.close()
        plane.close()
        await server.close()
    found = list(differences(load(), normalised(talk.said)))
    wrong = [each for each in found if not allowed(each)]
    assert not wrong, "\n".join(map(str, wrong))
    unused = {*LEFT_OUT, *OTHERWISE} - {
        name for each in found for name in (each.field, each.exchange)
    }
    assert not unused, "the lab does this by now: remove the row"


def allowed(found: Difference) -> bool:
    """Return whether a table has a reason for a difference."""
    if found.exchange in OTHERWISE:
        return True
    return found.is_missing and found.field in LEFT_OUT and found.status < 300
