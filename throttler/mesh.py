"""How a revision is reached: by its pods' own addresses, or by its Service's ClusterIP.

A table over the two settings of the network ConfigMap, and what an answer proves about a mesh.
Pure. Knative's counterpart: meshMode and usePassthroughLb in
pkg/activator/net/revision_backends.go, where *enabled* with addressable pods reaches nothing.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from throttler.model import MeshMode

#: Seconds of failed probes after which a pod no longer proves that pods can be reached. By default
#: Kubernetes takes half of this to list a broken pod as not ready: three readiness probes, 10 s
#: apart. With a shorter time, a restart would count as a mesh. A longer time delays the ClusterIP
#: when a mesh, or a network policy, is switched on while pods run.
PROOF_LASTS = 60.0


class Reach(NamedTuple):
    """What requests may be sent to.

    Attributes:
        pods: pods, by their own addresses.
        service: the ClusterIP; where pods are, too, only while no pod can be reached.
        trusted: a pod that Kubernetes lists as ready needs no probe of ours.
    """

    pods: bool = True
    service: bool = True
    trusted: bool = False


#: The default: pods by their own addresses, and the ClusterIP where those cannot be reached.
DEFAULT_REACH: Final = Reach()

_A, _E, _D = MeshMode.AUTO, MeshMode.ENABLED, MeshMode.DISABLED

#: By mode, and by whether pods are addressable in spite of the mesh (each request to them then
#: says which Service is meant, so the ClusterIP is not needed).
REACH: Final[dict[tuple[MeshMode, bool], Reach]] = {
    (_A, False): Reach(pods=True, service=True, trusted=False),
    (_E, False): Reach(pods=False, service=True, trusted=False),
    (_D, False): Reach(pods=True, service=False, trusted=True),
    (_A, True): Reach(pods=True, service=False, trusted=False),
    (_E, True): Reach(pods=True, service=False, trusted=False),
    (_D, True): Reach(pods=True, service=False, trusted=True),
}


def looks_like_mesh(status: int | None) -> bool:
    """Return whether a failed probe's answer could be a mesh's that lets nobody reach the pod.

    Any other answer came from the pod, which can be reached then. Source: Knative
    pkg/activator/net/revision_backends.go.

    Arguments:
        status: of the answer; None if there was none (refused, lost, too late).
    """
    return status is None or status in (502, 503)
