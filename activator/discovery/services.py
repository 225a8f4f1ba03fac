"""Turns the private Service of a revision into the address under which all its pods are reached.

Pure: an object goes in, a value or ``ManifestError`` comes out. It must not know which revisions
exist, nor when a Service is used in place of pods.
Knative's counterpart: getPrivateServiceDest of pkg/activator/net/revision_backends.go.
"""

from __future__ import annotations

from collections.abc import Mapping

from activator.objects.addresses import host, ip_of, port_named
from activator.objects.fields import root
from throttler.model import AppProtocol


def parse(obj: object) -> Mapping[AppProtocol, str]:
    """Reads a private Service.

    Arguments:
        obj: the object as decoded from JSON or YAML.

    Returns:
        ``ip:port`` for each protocol that has a port of its name. Empty where the Service has no
        ClusterIP: it is headless, or an alias for a name.

    Raises:
        ManifestError: a field of it is wrong.
    """
    spec = root(obj, "Service")["spec"]
    cluster_ip = spec["clusterIP"]
    if cluster_ip.text() in ("", "None"):
        return {}
    # Of two families this is the first one, which is the cluster's own.
    ip = host(ip_of(cluster_ip))
    ports = {p: port_named(spec["ports"], p.port_name) for p in AppProtocol}
    return {protocol: f"{ip}:{port}" for protocol, port in ports.items() if port}
