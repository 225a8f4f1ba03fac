"""Lists all sources in a table, and makes the one that the settings choose.

A further source needs a module, a row here and a setting that chooses it. The modules of a source
are imported when it is made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from activator.discovery.dialect import Scope
from activator.discovery.endpoints import EndpointsSource, IpFamily
from activator.discovery.inventory import DIALECTS, Inventory
from activator.discovery.keda_kinds import KedaDialect
from activator.discovery.rejections import log_rejection
from activator.discovery.service_kinds import ServicesDialect
from activator.discovery.source import Sink, Source
from activator.keda.revisions import InterceptorDefaults
from activator.knative.system_objects import SystemObjects
from activator.plain.slices import OwnListener, OwnListeners
from activator.settings.config import Settings


class Wiring(NamedTuple):
    """The parts that a source is connected to.

    Attributes:
        sink: takes revisions and their pods.
        system: takes ConfigMaps, Secrets and trust bundles.
        requests_wait: returns whether any request waits for a pod.
    """

    settings: Settings
    sink: Sink
    system: SystemObjects
    requests_wait: Callable[[], bool]


class SourceRow(NamedTuple):
    """One source.

    Attributes:
        chosen: returns whether the settings choose it.
        make: returns the source; it has opened nothing yet.
    """

    chosen: Callable[[Settings], bool]
    make: Callable[[Wiring], Source]


def make_source(wiring: Wiring) -> Source:
    """Return the source that the settings choose."""
    return next(row.make(wiring) for row in SOURCES if row.chosen(wiring.settings))


def _folder(wiring: Wiring) -> Source:
    from activator.discovery.manifests import ManifestFolder

    settings = wiring.settings
    assert settings.manifests is not None
    interval = settings.self_check_interval
    return ManifestFolder(settings.manifests, _inventory(wiring), self_check_interval=interval)


def _cluster(wiring: Wiring) -> Source:
    from activator.discovery.kubernetes import KubernetesWatch

    settings = wiring.settings
    return KubernetesWatch(
        _inventory(wiring),
        settings.system_namespace,
        settings.kubeconfig,
        self_check_interval=settings.self_check_interval,
        requests_wait=wiring.requests_wait,
        minimum_version=settings.kubernetes_min_version,
    )


def _inventory(wiring: Wiring) -> Inventory:
    settings = wiring.settings
    folder = settings.manifests is not None
    scope = Scope(
        None if folder else settings.system_namespace,
        EndpointsSource(settings.endpoints),
        IpFamily.IPV6 if ":" in settings.pod_ip else IpFamily.IPV4,
        settings.readiness_policy,
        settings.cluster_domain,
        services=not {ServicesDialect.name, KedaDialect.name}.isdisjoint(settings.dialect),
        folder=folder,
        own=_own_listeners(settings),
        activators=None if folder else settings.activators,
        interceptor=InterceptorDefaults(
            settings.keda_readiness_timeout,
            settings.keda_request_timeout,
            settings.keda_response_header_timeout,
            settings.keda_max_pending,
            settings.keda_cold_start_header,
            settings.keda_watch_namespace or "",
        ),
    )
    dialects = (DIALECTS[name] for name in settings.dialect)
    # A folder logs rejected objects itself, with file and line.
    report = (lambda rejection: None) if folder else log_rejection
    return Inventory(wiring.sink, wiring.system, report, scope, dialects)


def _own_listeners(settings: Settings) -> OwnListeners:
    listeners = (
        (settings.bind, settings.http_port, "--http-port"),
        (settings.bind, settings.h2c_port, "--h2c-port"),
        (settings.bind, settings.profiling_port, "--profiling-port"),
        (settings.metrics_bind, settings.metrics_port, "--metrics-port"),
        (settings.admin_bind, settings.admin_port, "--admin-port"),
    )
    found = (OwnListener(on, port, flag) for on, port, flag in listeners if port is not None)
    return OwnListeners(tuple(found), settings.pod_ip)


#: The first row that is chosen counts.
SOURCES: Final = (
    SourceRow(lambda settings: settings.manifests is not None, _folder),
    SourceRow(lambda settings: True, _cluster),
)
