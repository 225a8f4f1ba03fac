"""Where the requests of a revision may go: to its pods, or to the ClusterIP of its Service.

A table over two settings of the network ConfigMap, and the probe responses that a mesh may cause.
Pure. Knative's counterpart: meshMode and usePassthroughLb in
pkg/activator/net/revision_backends.go, where *enabled* with addressable pods reaches nothing.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from throttler.model import MeshMode, ReadinessRule, Revision

#: Seconds of failed probes after which a pod no longer proves that pods can be reached. By default
#: Kubernetes takes half of this to list a broken pod as not ready: three readiness probes, 10 s
#: apart. With a shorter time, a restart would count as a mesh. A longer time delays the ClusterIP
#: when a mesh, or a network policy, is switched on while pods run.
PROOF_LASTS = 60.0


class Reach(NamedTuple):
    """The destinations that requests may have.

    Attributes:
        pods: pods, at their own addresses.
        service: the ClusterIP; if pods is set too, only while no pod is reachable.
        trusted: whether a pod that Kubernetes lists as ready needs no probe.
    """

    pods: bool = True
    service: bool = True
    trusted: bool = False


#: The default: pods at their own addresses, and the ClusterIP while no pod is reachable.
DEFAULT_REACH: Final = Reach()

_A, _E, _D = MeshMode.AUTO, MeshMode.ENABLED, MeshMode.DISABLED

#: Pods without queue-proxy. The ClusterIP may lead back to the activator.
_PLAIN: Final = Reach(pods=True, service=False, trusted=False)
_PLAIN_TRUSTED: Final = _PLAIN._replace(trusted=True)

#: By mode, and by whether pods are addressable in spite of the mesh. Each request to an addressable
#: pod names its Service in a header field, so the ClusterIP is not needed.
REACH: Final[dict[tuple[MeshMode, bool], Reach]] = {
    (_A, False): Reach(pods=True, service=True, trusted=False),
    (_E, False): Reach(pods=False, service=True, trusted=False),
    (_D, False): Reach(pods=True, service=False, trusted=True),
    (_A, True): Reach(pods=True, service=False, trusted=False),
    (_E, True): Reach(pods=True, service=False, trusted=False),
    (_D, True): Reach(pods=True, service=False, trusted=True),
}


def reach_of(revision: Revision, knative: Reach) -> Reach:
    """Return the destinations that requests of a revision may have.

    Arguments:
        knative: for pods with queue-proxy, by the network ConfigMap.
    """
    if revision.behind_queue_proxy:
        return knative
    return _PLAIN_TRUSTED if revision.readiness is ReadinessRule.NO_PROBE else _PLAIN


def looks_like_mesh(status: int | None) -> bool:
    """Return whether a mesh that blocks direct requests may have caused a failed probe.

    A response with any other status came from the pod, so the pod is reachable. Source: Knative
    pkg/activator/net/revision_backends.go.

    Arguments:
        status: of the response; None without a response (refused, lost, timed out).
    """
    return status is None or status in (502, 503)
