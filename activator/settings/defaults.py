"""Derives defaults from the machine, or from settings further up in the table.

The module must not know the table itself (activator/settings/config.py).
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Final

from activator.settings import values
from activator.settings.setting import Derived, Sources

RESOLV_CONF: Final = Path("/etc/resolv.conf")
_USUAL_DOMAIN: Final = "cluster.local"


def _host_name(sources: Sources) -> str:
    return socket.gethostname() or "localhost"


def _every_address(sources: Sources) -> str:
    """Return the address that stands for all addresses of this pod, of both families.

    ``::`` takes IPv4 too. But a kernel without IPv6 cannot bind it, so the pod must have such an
    address. Kubernetes' downward API has all addresses in ``status.podIPs``.
    """
    environ = sources.environ
    addresses = environ.get("POD_IPS", "") or environ.get("POD_IP", "")
    return "::" if ":" in addresses else "0.0.0.0"


def _bind_address(sources: Sources) -> str:
    return str(sources.known.get("bind", "127.0.0.1"))


def _cluster_domain(sources: Sources) -> str:
    """Return the first search domain with prefix ``svc.``, as Knative's pkg/network/domain.go."""
    try:
        lines = sources.resolv_conf.read_text(errors="replace").splitlines()
    except OSError:
        return _USUAL_DOMAIN
    searches = (words for line in lines if (words := line.split()) and words[0] == "search")
    for domain in (word for words in searches for word in words[1:]):
        if domain.startswith("svc."):
            try:
                return values.DOMAIN.parse(domain.removeprefix("svc."))
            except ValueError:
                continue
    return _USUAL_DOMAIN


def _autoscaler_url(sources: Sources) -> str:
    return _peer_url(sources, "autoscaler", "knative")


def _scaler_url(sources: Sources) -> str:
    return _peer_url(sources, "activator-scale", "services")


def _peer_url(sources: Sources, service: str, dialect: str) -> str:
    """Return the URL of a Service of the system namespace; empty without its dialect."""
    known = sources.known
    if "system_namespace" not in known or "cluster_domain" not in known:
        return ""  # one of both is wrong, so the activator does not start anyway
    if dialect not in known.get("dialect", ()):
        return ""
    return f"ws://{service}.{known['system_namespace']}.svc.{known['cluster_domain']}:8080"


def _scaler_admin_url(sources: Sources) -> str:
    namespace = sources.environ.get("SYSTEM_NAMESPACE", "")
    try:
        return f"http://activator-scale.{values.DNS_LABEL.parse(namespace)}.svc:8081"
    except ValueError:
        return "http://127.0.0.1:8081"  # not in a pod: kubectl port-forward


def _activators(sources: Sources) -> str:
    # Any namespace will do if the right one is wrong: the program does not start then.
    return f"{sources.known.get('system_namespace', 'default')}/activator-service"


ACTIVATORS: Final = Derived("SYSTEM_NAMESPACE/activator-service", _activators)
HOST_NAME: Final = Derived("the host's name", _host_name)
EVERY_ADDRESS: Final = Derived(
    "0.0.0.0; `::` if `POD_IPS` or `POD_IP` has an IPv6 address", _every_address
)
BIND: Final = Derived("the value of `--bind`", _bind_address)
CLUSTER_DOMAIN: Final = Derived(
    "the `svc.` search domain of resolv.conf, else cluster.local", _cluster_domain
)
AUTOSCALER_URL: Final = Derived(
    "ws://autoscaler.SYSTEM_NAMESPACE.svc.CLUSTER_DOMAIN:8080; nothing without the dialect knative",
    _autoscaler_url,
)
SCALER_URL: Final = Derived(
    "ws://activator-scale.SYSTEM_NAMESPACE.svc.CLUSTER_DOMAIN:8080; nothing without the dialect "
    "services",
    _scaler_url,
)
SCALER_ADMIN_URL: Final = Derived(
    "http://activator-scale.SYSTEM_NAMESPACE.svc:8081 in a pod, else http://127.0.0.1:8081",
    _scaler_admin_url,
)
