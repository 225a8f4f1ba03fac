"""Declares the settings of ``activator scale``: names, meaning, default and the reason for it.

The module must not know the effects of a setting.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from activator.settings import values
from activator.settings.setting import (
    ACTIVATORS,
    BIND,
    EVERY_ADDRESS,
    HOST_NAME,
    INTERCEPTORS,
    METRICS_OF_SCALER,
    OF_SCALER,
    REQUIRED,
    SettingRow,
    Sources,
    find_all,
    rows,
    setting,
)
from activator.settings.values import Kind

COMMAND: Final = "scale"

LISTENERS: Final = "Listeners of the scaler"
IDENTITY: Final = "Identity of the scaler"
TAKEOVER: Final = "Takeover"
ADD_ON: Final = "The KEDA HTTP add-on and its scaler"
LOGGING: Final = "Logs of the scaler"

_PORTS: Final = ("stat_port", "grpc_port", "external_metrics_port", "metrics_port", "admin_port")
_LEAST_PORT, _MOST_PORT = 1024, 65_535
#: The ports of the activators for Services with route ``takeover``.
DEFAULT_RANGE: Final = range(10_000, 11_000)


def _port_range(text: str) -> range:
    found = re.fullmatch(r"(\d{4,5})-(\d{4,5})", text, re.ASCII)
    if found is None:
        raise ValueError(f"not a range: {text!r}")
    first, last = map(int, found.groups())
    if not _LEAST_PORT <= first <= last <= _MOST_PORT:
        raise ValueError(f"out of range: {text!r}")
    return range(first, last + 1)


PORT_RANGE: Final = Kind(
    _port_range, f"FIRST-LAST, two ports from {_LEAST_PORT} to {_MOST_PORT}", "FIRST-LAST"
)


#: Declares a row that this one command reads.
_setting = partial(setting, commands=(COMMAND,))


# One row is one block; the formatter would put each argument on a line of its own.
# fmt: off
@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleSettings:
    """The settings of this process; ``load`` makes them, and nothing changes them.

    Port 0 means any free port.
    """

    dialect: tuple[str, ...] = _setting(
        values.choices("services", "keda"), "ACTIVATOR_DIALECT", ADD_ON, OF_SCALER,
        "Objects that describe the applications: annotated Services (services), HTTPScaledObjects "
        "and InterceptorRoutes (keda). With keda alone, the scaler writes nothing and needs no "
        "Lease.",
        "Not every cluster has the add-on.",
    )
    interceptors: tuple[str, str] | None = _setting(
        values.optional(values.SERVICE, "that none is polled"), "ACTIVATOR_INTERCEPTORS", ADD_ON,
        INTERCEPTORS,
        "The admin Service of the interceptors. The scaler polls each one that does not report by "
        "itself.",
        "Activators report by themselves.",
    )
    interceptors_port: int = _setting(
        values.PORT, "ACTIVATOR_INTERCEPTORS_PORT", ADD_ON, "9090",
        "Admin port of the interceptors.",
        "The add-on's.",
        add_on="KEDA_HTTP_SCALER_TARGET_ADMIN_PORT",
    )
    queue_interval: float = _setting(
        values.duration(), "ACTIVATOR_QUEUE_INTERVAL", ADD_ON, "500ms",
        "Time between two polls of an interceptor.",
        "The add-on's.",
        add_on="KEDA_HTTP_QUEUE_TICK_DURATION",
    )

    bind: str = _setting(
        values.ADDRESS, "ACTIVATOR_BIND", LISTENERS, EVERY_ADDRESS,
        "Address of the listeners for activators, KEDA and metrics.",
        "The activators and KEDA are on other nodes.",
    )
    stat_port: int = _setting(
        values.PORT, "ACTIVATOR_STAT_PORT", LISTENERS, "8080",
        "Port of the WebSocket on which the activators report their load.",
        "The port of Knative's autoscaler.",
    )
    stat_token_file: str = _setting(
        values.TEXT, "ACTIVATOR_STAT_TOKEN_FILE", LISTENERS, "",
        "File with tokens, separated by white space, read for each connection. An activator must "
        "send one of them; empty to require none.",
        "A NetworkPolicy is sufficient in most clusters.",
    )
    grpc_port: int = _setting(
        values.PORT, "ACTIVATOR_GRPC_PORT", LISTENERS, "6000",
        "Port on which KEDA calls this scaler over gRPC.",
        "A ScaledObject names it in `scalerAddress`.",
        add_on="KEDA_HTTP_SCALER_PORT",
    )
    grpc_tls_cert: str = _setting(
        values.TEXT, "ACTIVATOR_GRPC_TLS_CERT", LISTENERS, "",
        "File with the certificate of KEDA's port in PEM, the server's first; empty for no TLS.",
        "A TriggerAuthentication has KEDA's side.",
    )
    grpc_tls_key: str = _setting(
        values.TEXT, "ACTIVATOR_GRPC_TLS_KEY", LISTENERS, "",
        "File with the private key of KEDA's port in PEM, not encrypted.",
        "It belongs to `--grpc-tls-cert`.",
    )
    grpc_tls_client_ca: str = _setting(
        values.TEXT, "ACTIVATOR_GRPC_TLS_CLIENT_CA", LISTENERS, "",
        "File with the CA certificates that sign KEDA's client certificate in PEM; empty to "
        "require none.",
        "It needs `--grpc-tls-cert`.",
    )
    external_metrics_port: int | None = _setting(
        values.OPTIONAL_PORT, "ACTIVATOR_EXTERNAL_METRICS_PORT", LISTENERS, "",
        "Port on which the API server reads metrics for HorizontalPodAutoscalers "
        "(external.metrics.k8s.io), over TLS; empty for none.",
        "A cluster has one server of this API group.",
    )
    external_metrics_tls_cert: str = _setting(
        values.TEXT, "ACTIVATOR_EXTERNAL_METRICS_TLS_CERT", LISTENERS, "",
        "File with the certificate of that port in PEM; empty for one that the scaler signs "
        "itself.",
        "`insecureSkipTLSVerify` needs no CA.",
    )
    external_metrics_tls_key: str = _setting(
        values.TEXT, "ACTIVATOR_EXTERNAL_METRICS_TLS_KEY", LISTENERS, "",
        "File with the private key of that port in PEM, not encrypted.",
        "It belongs to `--external-metrics-tls-cert`.",
    )
    external_metrics_client_ca: str = _setting(
        values.TEXT, "ACTIVATOR_EXTERNAL_METRICS_CLIENT_CA", LISTENERS, "",
        "File with the CA certificates that sign the API server's client certificate in PEM; "
        "empty to require none.",
        "Loads are no secret. `kube-system/extension-apiserver-authentication` has the CA "
        "certificates.",
    )
    metrics_port: int = _setting(
        values.METRICS_PORT, "METRICS_PROMETHEUS_PORT", LISTENERS, METRICS_OF_SCALER,
        "Port on which Prometheus finds /metrics.",
        "As the activators'.",
        add_on="OTEL_PROM_EXPORTER_PORT",
    )
    admin_port: int = _setting(
        values.PORT, "ACTIVATOR_ADMIN_PORT", LISTENERS, "8081",
        "Port of /healthz, of /readyz (200 on the leader alone), of the API and of the page.",
        "8080 is for the activators.",
    )
    admin_bind: str = _setting(
        values.ADDRESS, "ACTIVATOR_ADMIN_BIND", LISTENERS, BIND,
        "Address of the admin listener.",
        "kubelet probes the pod's address; the API is read-only.",
    )
    admin_hosts: tuple[str, ...] = _setting(
        values.HOSTS, "ACTIVATOR_ADMIN_HOSTS", LISTENERS, "",
        "Hosts that requests to the admin port may name, in addition to localhost and addresses; "
        "others get 421.",
        "It prevents DNS rebinding.",
    )

    waker_hosts: tuple[str, ...] = _setting(
        values.HOSTS, "ACTIVATOR_WAKER_HOSTS", LISTENERS, "",
        "Host names, separated by commas, that the waker `http` may call in addition to pods and "
        "Services of the same namespace; their addresses are not checked.",
        "The scaler calls them from its own network for all who may annotate a Service.",
    )

    dashboard_url: str = _setting(
        values.url("http", "https", empty="no link"), "ACTIVATOR_DASHBOARD_URL", LISTENERS, "",
        "Address of an activator's dashboard for browsers, to which the scaler's page links.",
        "Only a person knows it.",
    )

    pod_name: str = _setting(
        values.OBJECT_NAME, "POD_NAME", IDENTITY, HOST_NAME,
        "Name of this pod. The leader sets the label `activator.dev/leader` on it.",
        "It is the pod's name.",
    )
    system_namespace: str = _setting(
        values.DNS_LABEL, "SYSTEM_NAMESPACE", IDENTITY, REQUIRED,
        "Namespace of this pod and of the Lease.",
        "With two Leases, two scalers would write.",
        add_on="KEDA_HTTP_SCALER_TARGET_ADMIN_NAMESPACE",
    )
    lease_name: str = _setting(
        values.OBJECT_NAME, "ACTIVATOR_LEASE_NAME", IDENTITY, "activator-scale",
        "Name of the Lease by which the scalers choose their leader.",
        "The name in the Role.",
    )
    kubeconfig: str = _setting(
        values.TEXT, "KUBECONFIG", IDENTITY, "",
        "File with the access to the Kubernetes API; empty for the pod's service account, or "
        "outside of a cluster ~/.kube/config.",
        "A pod has a service account.",
        empty_is_value=True,
    )

    activators: tuple[str, str] = _setting(
        values.SERVICE, "ACTIVATOR_ACTIVATORS", TAKEOVER, ACTIVATORS,
        "The Service whose EndpointSlices list the activators: the endpoints of Services with "
        "route `takeover` or `front`.",
        "The Service of the manifests.",
    )
    takeover_ports: range = _setting(
        PORT_RANGE, "ACTIVATOR_TAKEOVER_PORTS", TAKEOVER,
        f"{DEFAULT_RANGE.start}-{DEFAULT_RANGE.stop - 1}",
        "Ports of the activators, one for each Service with route `takeover` or `front`.",
        "1,000 ports below the kernel's own.",
    )

    log_format: str = _setting(
        values.choice("auto", "json", "console"), "ACTIVATOR_LOG_FORMAT", LOGGING, "auto",
        "JSON lines or readable lines; auto: readable lines in a terminal.",
        "Right in pod and terminal.",
        add_on="--zap-encoder",
    )
    log_level: str = _setting(
        values.choice("debug", "info", "warning", "error"), "ACTIVATOR_LOG_LEVEL", LOGGING, "info",
        "Lowest severity in the log.",
        "One line per change of replicas.",
        add_on="--zap-log-level",
    )


# fmt: on


SETTINGS: Final[tuple[SettingRow, ...]] = rows(ScaleSettings)
"""The table, in the order of the fields; a default may depend on rows above it only."""


def load(flags: Mapping[str, str | None], environ: Mapping[str, str] = os.environ) -> ScaleSettings:
    """Read every setting.

    Arguments:
        flags: the command line's values by setting name; None or absent means not given.
        environ: the environment variables.

    Raises:
        ConfigError: lists all wrong and all missing settings, or two equal ports.
    """
    sources = Sources(COMMAND, flags, environ)
    return ScaleSettings(**find_all(SETTINGS, sources, _contradictions))


def _contradictions(known: Mapping[str, Any]) -> list[str]:
    """Return one sentence for each contradiction; the values are by the names of settings."""
    used: dict[int, str] = {}
    problems = []
    for name in _PORTS:
        port = known[name]
        if port and port in used:
            problems.append(
                f"{used[port]} and {name} are both {port}: give each its own port, or 0 to pick a "
                f"free one."
            )
        used[port] = name
    problems += [
        f"{name}_cert and {name}_key belong together: give both or neither."
        for name in ("external_metrics_tls", "grpc_tls")
        if bool(known[f"{name}_cert"]) != bool(known[f"{name}_key"])
    ]
    if known["grpc_tls_client_ca"] and not (known["grpc_tls_cert"] or known["grpc_tls_key"]):
        problems.append("grpc_tls_client_ca needs grpc_tls_cert and grpc_tls_key: give them, too.")
    return problems
