"""Defines the commands that serve or scale until a signal: run, local, demo and scale."""

from __future__ import annotations

from typing import Final

from activator.cli.settings_command import command
from activator.scale.settings import ScaleSettings
from activator.settings.config import Settings

_SERVER_STATUSES: Final = """\b
Exit status:
    0  ended by SIGTERM or Ctrl-C; all requests ended, or were closed after --drain-timeout
    1  could not start or continue, see the last log line; or ended by a second signal
    2  a setting is wrong or missing; the errors list all of them
  130  ended by Ctrl-C before it served
"""


def _serve(settings: Settings) -> int:
    """Serve until a signal."""
    from activator.app import main as serve

    return serve(settings)


run = command(
    "run",
    """Serve in a Kubernetes cluster.

    With the dialect knative, this program replaces Knative's activator. It has the same ports,
    environment variables and responses. With the dialect services, it serves annotated Services
    without Knative. It watches these objects and their endpoints, probes pods, and queues requests.
    It reports the load to Knative's autoscaler, or to `activator scale`.

    \b
    In a pod of Knative's Deployment, no setting is necessary. Outside of the cluster:
      POD_NAME=me POD_IP=10.0.0.9 SYSTEM_NAMESPACE=knative-serving \\
        activator run --kubeconfig ~/.kube/config

    \b
    Look next:
      activator status     after kubectl port-forward deployment/activator 8080
      /readyz, /metrics    on the admin port
    """,
    _SERVER_STATUSES,
)(_serve)


local = command(
    "local",
    """Serve without a cluster, from a folder of manifests.

    The folder holds objects in Kubernetes' format, in files that end in .yaml, .yml or .json. A
    Revision needs Endpoints or EndpointSlices. An annotated Service needs EndpointSlices, and may
    have a Deployment or StatefulSet. ConfigMaps hold settings. Files that are created, changed,
    renamed or deleted take effect at once. The log reports a broken file, and its last good state
    stays in force. The activator ignores objects of other kinds, and folders within the folder. It
    also ignores Endpoints without Knative's labels, or without a port named http or http2
    (docs/reference.md). The log, and `activator explain`, name such objects.

    Sample pods may use the same ports on other loopback addresses. Use --bind 127.0.0.1 for that:
    the default 0.0.0.0 occupies the port on all of them.

    \b
    Example, with a revision default/hello in ./objects:
      activator local --manifests ./objects --bind 127.0.0.1
      curl -H 'Knative-Serving-Namespace: default' \\
           -H 'Knative-Serving-Revision: hello' http://127.0.0.1:8012/

    \b
    Look next:
      activator status     pods, requests in flight and queued requests
      activator demo       writes such a folder and starts pods for it
    """,
    _SERVER_STATUSES,
)(_serve)


demo = command(
    "demo",
    """Show on this machine how requests wait for pods that start.

    Starts local mode on loopback addresses with sample services that are scaled to zero. The
    first request to a service is queued while its pod starts, and then gets its response. A pod
    without requests is stopped. One service is a plain Deployment, which `activator scale`
    scales. Prints commands and addresses to try. Ends with Ctrl-C.

    \b
    Example:
      activator demo
      activator demo --http-port 0 --admin-port 0    any free ports, which it prints

    \b
    Look next, in another terminal:
      activator status     while a request waits
    """,
    _SERVER_STATUSES,
)(_serve)


@command(
    "scale",
    """Scale workloads from zero and back, without Knative.

    A Service opts in with the annotation activator.dev/enabled: "true". `activator run` queues its
    requests and reports them to this program. This program asks the API server for replicas when a
    request waits, and removes them when there has been no request for idle-seconds. With
    activator.dev/owner: keda or hpa it starts only the first replicas, and KEDA or an HPA decides
    the rest. With activator.dev/route: takeover it writes an EndpointSlice, so that the requests
    of a sleeping Service reach the activators.

    Several scalers may run. They choose a leader by a Lease, and only the leader writes. The
    leader sets the label activator.dev/leader: "true" on its pod. The Service of the scaler selects
    this pod.

    \b
    In a pod of manifests/scale, no setting is necessary. Outside of the cluster:
      SYSTEM_NAMESPACE=activator-system activator scale --kubeconfig ~/.kube/config

    \b
    Example: a Deployment that sleeps without requests
      kubectl annotate service hello activator.dev/enabled=true

    \b
    Look next, on the admin port:
      /api/v1/services     replicas of each Service, wanted and present; why one is not scaled
      /readyz              200 on the leader, 503 on the others
      /healthz             200 while the process works
      /metrics             metrics, as on the metrics port
    """,
    """\b
Exit status:
    0  ended by SIGTERM or Ctrl-C; the Lease is released
    1  could not start or continue, see the last log line; or ended by a second signal
    2  a setting is wrong or missing; the errors list all of them
""",
)
def scale(settings: ScaleSettings) -> int:
    """Scale until a signal."""
    from activator.scale.app import main as run_scaler

    return run_scaler(settings)
