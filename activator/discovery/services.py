"""Parses the private Service of a revision: its ClusterIP, which leads to all its pods.

Pure: the result is a value or ``ManifestError``. It must not know which revisions exist, nor when
requests go to a Service.
Knative's counterpart: getPrivateServiceDest of pkg/activator/net/revision_backends.go.
"""

from __future__ import annotations

from collections.abc import Mapping

from activator.objects.addresses import host, ip_of, port_named
from activator.objects.fields import root
from throttler.model import AppProtocol


def parse(obj: object) -> Mapping[AppProtocol, str]:
    """Return the addresses of a private Service.

    Arguments:
        obj: the object as decoded from JSON or YAML.

    Returns:
        ``ip:port`` by protocol, for the protocols whose port has their name. Empty for a Service
        without ClusterIP: it is headless, or an alias for a name.

    Raises:
        ManifestError: a field of it is wrong.
    """
    spec = root(obj, "Service")["spec"]
    cluster_ip = spec["clusterIP"]
    if cluster_ip.text() in ("", "None"):
        return {}
    # If there are two families, this field has the first one, which is the cluster's own.
    ip = host(ip_of(cluster_ip))
    ports = {p: port_named(spec["ports"], p.port_name) for p in AppProtocol}
    return {protocol: f"{ip}:{port}" for protocol, port in ports.items() if port}
