"""Declares every setting in one table: names, meaning, default and the reason for the default.

The fields of ``Settings`` are the table. The command line's options, their help and the tables of
docs/reference.md come from it. A flag wins over the environment variable, and the variable over the
default. One error reports all wrong values. The module must not know the effects of a setting, and
writes nothing. Knative's counterparts: the ``config`` struct in cmd/activator/main.go and the
constants around it. Its environment variables keep their names, so its Deployment works unchanged.
"""

# ruff: noqa: RUF009 - setting() wraps dataclasses.field, which the linter cannot see

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from activator.settings import values
from activator.settings import values as parameters
from activator.settings.setting import (
    ACTIVATORS,
    ADMIN_URL,
    ASKING,
    AUTOSCALER_URL,
    BIND,
    CLUSTER_DOMAIN,
    DRAIN_TIMEOUT,
    EVERY_ADDRESS,
    HOST_NAME,
    OWN_ADDRESS,
    OWN_NAMESPACE,
    REPLACED,
    REQUIRED,
    RESOLV_CONF,
    SCALER_ADMIN_URL,
    SCALER_URL,
    SHUTDOWN_DELAY,
    SettingRow,
    Sources,
    find,
    find_all,
    rows,
    setting,
)
from activator.settings.values import Kind, TlsParameters

T = TypeVar("T")

LISTENERS = "Listeners"
IDENTITY = "Identity of this activator"
TLS = "TLS"
CLUSTER = "Cluster"
LAPTOP = "Without a cluster"
WAITING = "Queued requests"
REQUESTS = "Limits of requests"
PODS = "Pods"
ENDING = "Shutdown"
LOGGING = "Logs"
OTEL = "Traces and metrics by OpenTelemetry"
ADD_ON = "The KEDA HTTP add-on"
CLIENT = "Queries of a running activator"


#: A setting that the demo does not have.
_without_demo = partial(setting, commands=("run", "local"))


def _add_on(
    kind: Kind[T], default: str, add_on: str, meaning: str, reason: str = "The add-on's default."
) -> T:
    """Return the field of a setting of the KEDA HTTP add-on, with a variable of its name."""
    return _without_demo(kind, "", ADD_ON, default, meaning, reason, add_on=add_on)


def _otel(
    kind: Kind[T],
    variable: str,
    empty: str,
    meaning: str,
    reason: str = "The ConfigMap has it.",
) -> T | None:
    """Return the field of a setting without a default; ``empty`` says which value counts then."""
    return _without_demo(values.optional(kind, empty), variable, OTEL, "", meaning, reason)


# One row is one block; the formatter would put each argument on a line of its own.
# fmt: off
@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of this process; ``load`` makes them, and nothing changes them.

    Durations are seconds, sizes are bytes. Port 0 means any free port.
    """

    command: str

    http_port: int = setting(
        values.PORT, "ACTIVATOR_HTTP_PORT", LISTENERS, "8012",
        "Port for traffic over HTTP/1.1 and HTTP/2 (h2c).",
        "Knative's activator-service forwards port 80 to it.",
        add_on="KEDA_HTTP_PROXY_PORT", keda="8080",
    )
    h2c_port: int | None = setting(
        values.OPTIONAL_PORT, "ACTIVATOR_H2C_PORT", LISTENERS, "8013",
        "Second port for the same traffic; empty for none.",
        "Knative's activator-service forwards port 81 to it.",
        demo="0", keda="",
    )
    https_port: int = setting(
        values.PORT, "ACTIVATOR_HTTPS_PORT", LISTENERS, "8112",
        "Port for TLS; open only with `system-internal-tls` in config-network, or `--keda-tls`.",
        "Knative's activator-service forwards port 443 to it.",
        add_on="KEDA_HTTP_PROXY_TLS_PORT", keda="8443",
    )
    metrics_port: int = setting(
        values.METRICS_PORT, "METRICS_PROMETHEUS_PORT", LISTENERS, "9090",
        "Port on which Prometheus finds /metrics.",
        "Knative's port.",
        demo="0", add_on="OTEL_PROM_EXPORTER_PORT", keda="2223",
    )
    admin_port: int = setting(
        values.PORT, "ACTIVATOR_ADMIN_PORT", LISTENERS, "8080",
        "Port of the admin API, the dashboard, health checks and metrics.",
        "A free port in Knative's pod.",
        add_on="KEDA_HTTP_ADMIN_PORT", keda="9090",
    )
    profiling_port: int | None = setting(
        values.OPTIONAL_PORT, "PROFILING_PORT", LISTENERS, "8008",
        "Port of profiles, with `runtime-profiling: enabled` in the observability ConfigMap; "
        "empty for none.",
        "Knative's port; a laptop needs no fixed one.",
        local="0", keda="",
    )
    admit_port: int | None = setting(
        values.OPTIONAL_PORT, "ACTIVATOR_ADMIT_PORT", LISTENERS, "",
        "Port on which proxies ask for a pod: nginx `auth_request`, forward authentication, Envoy "
        "`ext_authz`. Empty for none.",
        "The port trusts its clients.",
    )
    admit_prefix: str = setting(
        values.PATH_PREFIX, "ACTIVATOR_ADMIT_PREFIX", LISTENERS, "",
        "The `path_prefix` of Envoy's `ext_authz`, which precedes the path of a request to the "
        "admission port.",
        "Envoy needs none.",
    )
    bind: str = setting(
        values.ADDRESS, "ACTIVATOR_BIND", LISTENERS, EVERY_ADDRESS,
        "Address of the listeners for traffic and metrics.",
        "The ingress is on other nodes.",
        demo="127.0.0.1",
    )
    admin_bind: str = setting(
        values.ADDRESS, "ACTIVATOR_ADMIN_BIND", LISTENERS, "127.0.0.1",
        "Address of the admin listener.",
        "It has no password, so only this machine and `kubectl port-forward` reach it.",
        keda=BIND,
    )
    admin_hosts: tuple[str, ...] = setting(
        values.HOSTS, "ACTIVATOR_ADMIN_HOSTS", LISTENERS, "",
        "Hosts that requests to the admin port may name, in addition to localhost and addresses; "
        "others get 421.",
        "It prevents DNS rebinding.",
    )
    metrics_bind: str = setting(
        values.ADDRESS, "METRICS_PROMETHEUS_HOST", LISTENERS, BIND,
        "Address of the metrics listener.",
        "Prometheus is usually in the ingress's network.",
    )

    tls_min_version: str = _without_demo(
        parameters.MIN_VERSION, "ACTIVATOR_TLS_MIN_VERSION", TLS, "1.3",
        "Oldest TLS version that the TLS listener accepts.",
        add_on="KEDA_HTTP_TLS_MIN_VERSION KEDA_HTTP_PROXY_TLS_MIN_VERSION", keda="1.2",
    )
    tls_max_version: str = _without_demo(
        parameters.MAX_VERSION, "ACTIVATOR_TLS_MAX_VERSION", TLS, "",
        "Newest TLS version that the TLS listener accepts; empty for OpenSSL's newest.",
        "Newer ones do no harm.",
        add_on="KEDA_HTTP_TLS_MAX_VERSION KEDA_HTTP_PROXY_TLS_MAX_VERSION",
    )
    tls_cipher_suites: tuple[str, ...] = _without_demo(
        parameters.CIPHER_SUITES, "ACTIVATOR_TLS_CIPHER_SUITES", TLS, "",
        "Cipher suites of TLS 1.2 for the TLS listener, by Go's names; empty for OpenSSL's list. "
        "All of TLS 1.3 are on.",
        "OpenSSL keeps its list up to date.",
        add_on="KEDA_HTTP_TLS_CIPHER_SUITES KEDA_HTTP_PROXY_TLS_CIPHER_SUITES",
    )
    tls_curve_preferences: tuple[str, ...] = _without_demo(
        parameters.CURVES, "ACTIVATOR_TLS_CURVE_PREFERENCES", TLS, "",
        "Curves for the key exchange of the TLS listener, by Go's names; the first that OpenSSL "
        "knows is used. Empty for OpenSSL's list.",
        "OpenSSL keeps its list up to date.",
        add_on="KEDA_HTTP_TLS_CURVE_PREFERENCES KEDA_HTTP_PROXY_TLS_CURVE_PREFERENCES",
    )
    metrics_tls_cert: str = _without_demo(
        values.TEXT, "METRICS_PROMETHEUS_TLS_CERT", TLS, "",
        "PEM file with the certificate of the metrics port, read again when it changes; empty for "
        "plain HTTP.",
    )
    metrics_tls_key: str = _without_demo(
        values.TEXT, "METRICS_PROMETHEUS_TLS_KEY", TLS, "",
        "PEM file with the private key of the metrics port.",
    )
    metrics_tls_client_auth: str = _without_demo(
        parameters.CLIENT_AUTH, "METRICS_PROMETHEUS_TLS_CLIENT_AUTH", TLS, "none",
        "Whether clients of the metrics port must have a certificate; optional verifies one that "
        "is there.",
    )
    metrics_tls_client_ca_file: str = _without_demo(
        values.TEXT, "METRICS_PROMETHEUS_TLS_CLIENT_CA_FILE", TLS, "",
        "PEM file with the certificate authorities for clients of the metrics port.",
        "The file depends on the cluster.",
    )
    metrics_tls_min_version: str = _without_demo(
        parameters.MIN_VERSION, "METRICS_PROMETHEUS_TLS_MIN_VERSION", TLS, "1.3",
        "Oldest TLS version that the metrics port accepts.",
    )
    metrics_tls_max_version: str = _without_demo(
        parameters.MAX_VERSION, "METRICS_PROMETHEUS_TLS_MAX_VERSION", TLS, "",
        "As `--tls-max-version`, for the metrics port.",
        "Newer ones do no harm.",
    )
    metrics_tls_cipher_suites: tuple[str, ...] = _without_demo(
        parameters.CIPHER_SUITES, "METRICS_PROMETHEUS_TLS_CIPHER_SUITES", TLS, "",
        "As `--tls-cipher-suites`, for the metrics port.",
        "OpenSSL keeps its list up to date.",
    )
    metrics_tls_curve_preferences: tuple[str, ...] = _without_demo(
        parameters.CURVES, "METRICS_PROMETHEUS_TLS_CURVE_PREFERENCES", TLS, "",
        "As `--tls-curve-preferences`, for the metrics port.",
        "OpenSSL keeps its list up to date.",
    )

    pod_name: str = setting(
        values.NAME, "POD_NAME", IDENTITY, REQUIRED,
        "Name of this activator in logs and in the statistics for the autoscaler.",
        "The autoscaler distinguishes activators by it.",
        local=HOST_NAME,
        keda=HOST_NAME,
    )
    pod_ip: str = setting(
        values.ADDRESS, "POD_IP", IDENTITY, REQUIRED,
        "Address of this activator, which determines its share of the pods.",
        "Only the cluster knows it.",
        local=BIND,
        keda=OWN_ADDRESS,
    )
    system_namespace: str = setting(
        values.DNS_LABEL, "SYSTEM_NAMESPACE", IDENTITY, REQUIRED,
        "Namespace of Knative's ConfigMaps and of the autoscaler.",
        "A default could be another installation's.",
        local="knative-serving",
        keda=OWN_NAMESPACE,
    )
    zone: str = setting(
        values.TEXT, "ACTIVATOR_ZONE", IDENTITY, "",
        "Zone of this activator, as EndpointSlices name it: its pods get requests first. Empty "
        "for no preference.",
        "The manifests read the pod's label `topology.kubernetes.io/zone`, which Kubernetes sets "
        "from 1.35 on.",
        empty_is_value=True,
    )
    cluster_domain: str = setting(
        values.DOMAIN, "CLUSTER_DOMAIN", IDENTITY, CLUSTER_DOMAIN,
        "Domain of the cluster's service names.",
        "kubelet writes it there.",
    )

    dialect: tuple[str, ...] = _without_demo(
        values.choices("knative", "services", "keda"), "ACTIVATOR_DIALECT", CLUSTER, REPLACED,
        "Objects that describe the applications: Revisions (knative), annotated Services "
        "(services), HTTPScaledObjects and InterceptorRoutes (keda). With knative and another "
        "one, a cluster may lack Knative.",
        "A replacement of Knative's activator must not take other Services.",
        local="knative,services",
    )
    kubeconfig: str = setting(
        values.TEXT, "KUBECONFIG", CLUSTER, "",
        "File with the access to the Kubernetes API; empty for the pod's service account, or "
        "outside of a cluster ~/.kube/config.",
        "A pod has a service account.",
        commands=("run",), empty_is_value=True,
    )
    kubernetes_min_version: str = setting(
        values.VERSION, "KUBERNETES_MIN_VERSION", CLUSTER, "v1.34.0",
        "Oldest Kubernetes version on which the activator starts.",
        "The oldest that Knative supports.",
        commands=("run",),
        keda="v1.21.0",
    )
    endpoints: str = _without_demo(
        values.choice("auto", "endpoints", "slices"), "ACTIVATOR_ENDPOINTS", CLUSTER, "auto",
        "Objects with the addresses of pods. auto reads Endpoints, and EndpointSlices for a "
        "revision whose Endpoints are missing or truncated at 1,000 pods.",
        "EndpointSlices have the addresses that Endpoints lack.",
    )
    self_check_interval: float = _without_demo(
        values.duration(zero=True), "ACTIVATOR_SELF_CHECK_INTERVAL", CLUSTER, "10m",
        "Time between two comparisons of the state with a fresh list of objects; 0 for none. "
        "Differences are counted, logged and corrected.",
        "It costs the API server almost nothing.",
    )
    config_logging_name: str = _without_demo(
        values.OBJECT_NAME, "CONFIG_LOGGING_NAME", CLUSTER, "config-logging",
        "ConfigMap with the log levels.",
        "Knative's name for it.",
    )
    config_observability_name: str = _without_demo(
        values.OBJECT_NAME, "CONFIG_OBSERVABILITY_NAME", CLUSTER, "config-observability",
        "ConfigMap with the settings of the request log, metrics and traces.",
        "Knative's name for it.",
    )
    autoscaler_url: str = _without_demo(
        values.url("ws", "wss", empty="no autoscaler"), "ACTIVATOR_AUTOSCALER_URL", CLUSTER,
        AUTOSCALER_URL,
        "WebSocket of Knative's autoscaler; empty for no connection.",
        "The address of Knative's autoscaler; a laptop has none.",
        local="", empty_is_value=True,
    )
    scaler_url: str = _without_demo(
        values.url("ws", "wss", empty="no scaler"), "ACTIVATOR_SCALER_URL", CLUSTER,
        SCALER_URL,
        "WebSocket of `activator scale`; empty for no connection.",
        "The address in the manifests; a laptop has no scaler.",
        local="", empty_is_value=True,
    )
    stat_token_file: str = _without_demo(
        values.TEXT, "ACTIVATOR_STAT_TOKEN_FILE", CLUSTER, "",
        "File whose first word is the token for `activator scale`, read for each connection; "
        "empty for none.",
        "A NetworkPolicy is sufficient in most clusters.",
    )
    activators: tuple[str, str] = setting(
        values.SERVICE, "ACTIVATOR_ACTIVATORS", CLUSTER, ACTIVATORS,
        "The Service whose EndpointSlices list the activators. They share the pods of a Service "
        "with `activator.dev/container-concurrency`.",
        "The Service of the manifests.",
        commands=("run",),
    )
    scaler_page_url: str = _without_demo(
        values.url("http", "https", empty="no link"), "ACTIVATOR_SCALER_PAGE_URL", CLUSTER, "",
        "Address of the scaler's page for browsers, to which the dashboard links.",
        "Only a person knows it.",
    )
    ready_without_autoscaler: bool = _without_demo(
        values.BOOLEAN, "ACTIVATOR_READY_WITHOUT_AUTOSCALER", CLUSTER, "false",
        "Whether the readiness probe passes while Knative's autoscaler is not connected. With "
        "false it fails until the first connection, and for up to 90 s after a loss.",
        "Traffic should avoid an activator that cannot start pods.",
    )

    manifests: Path | None = setting(
        values.FOLDER, "ACTIVATOR_MANIFESTS", LAPTOP, "",
        "Folder with objects as YAML or JSON, read at start and when a file changes.",
        "It replaces the cluster.",
        local=REQUIRED, demo="", commands=("local",),
    )

    queue_depth: int = setting(
        values.count(1), "ACTIVATOR_QUEUE_DEPTH", WAITING, "10000",
        "Limit of queued requests of one revision; the next request gets 503.",
        "Knative's queue depth.",
    )
    queue_depth_total: int = setting(
        values.count(1), "ACTIVATOR_QUEUE_DEPTH_TOTAL", WAITING, "100000",
        "Limit of queued requests of all revisions; the last quarter is for revisions with few "
        "queued requests.",
        "Ten full queues: 300 to 400 MiB.",
    )
    hold_bytes: int = setting(
        values.SIZE, "ACTIVATOR_HOLD_BYTES", WAITING, "64KiB",
        "Bytes of one queued request in memory; beyond it, TCP makes the client wait. One read "
        "may bring 256 KiB, which are all kept.",
        "A usual form or JSON body can be retried.",
    )
    hold_bytes_per_revision: int = setting(
        values.SIZE, "ACTIVATOR_HOLD_BYTES_PER_REVISION", WAITING, "64MiB",
        "Limit of the bytes of queued requests in memory, for one revision.",
        "A quarter of the limit for all revisions.",
    )
    hold_bytes_total: int = setting(
        values.SIZE, "ACTIVATOR_HOLD_BYTES_TOTAL", WAITING, "256MiB",
        "Limit of the bytes of queued requests in memory, for all revisions; the last quarter is "
        "for revisions with few bytes.",
        "With full queues 656 MiB: less than the manifests' 1 GiB, more than Knative's 600 MiB. "
        "There, lower this limit and the queue depth.",
    )
    shed_early: bool = setting(
        values.BOOLEAN, "ACTIVATOR_SHED_EARLY", WAITING, "false",
        "Whether a request gets 503 at once if its expected wait exceeds its time-out.",
        "Knative queues such a request. The estimate does not foresee clients that cancel.",
    )
    trusted_proxies: tuple[values.Network, ...] = setting(
        values.NETWORKS, "ACTIVATOR_TRUSTED_PROXIES", REQUESTS, "",
        "Networks of proxies. For their requests, the last address of `X-Forwarded-For` is the "
        "client's.",
        "Any client can send the header.",
    )
    service_header_from: tuple[values.Network, ...] = setting(
        values.NETWORKS, "ACTIVATOR_SERVICE_HEADER_FROM", REQUESTS, "always",
        "Whose requests may name a Service by the header `Activator-Service`: `always` for all, "
        "`never`, or networks of proxies. From others the header counts as absent.",
        "Gateways that set the header work at once. Use `never` if you route by host: a proxy "
        "that passes it lets its clients reach every annotated Service.",
    )
    borrow: bool = setting(
        values.BOOLEAN, "ACTIVATOR_BORROW", WAITING, "true",
        "Whether a request uses a pod of another activator's share before it is queued. Pods "
        "without queue-proxy are never used so.",
        "A request should not wait while a pod is idle. Knative does not borrow.",
    )
    server_timing: bool = setting(
        values.BOOLEAN, "ACTIVATOR_SERVER_TIMING", WAITING, "false",
        "Whether the response to a queued request has `Server-Timing`, with the phases of the "
        "wait.",
        "Any client can read it.",
    )
    cold_start_header: bool = setting(
        values.BOOLEAN, "ACTIVATOR_COLD_START_HEADER", WAITING, "false",
        "Whether each response has `Activator-Cold-Start`: true if its request waited for a pod "
        "to start, else false.",
        "Each response costs a little more.",
    )

    idle_from_arrival: bool = setting(
        values.BOOLEAN, "ACTIVATOR_IDLE_FROM_ARRIVAL", WAITING, "false",
        "Whether a revision's idleTimeoutSeconds also counts while a request is queued.",
        "A cold start is no silence of the application; Knative counts it.",
    )

    max_header_bytes: int = setting(
        values.SIZE, "ACTIVATOR_MAX_HEADER_BYTES", REQUESTS, "1MiB",
        "Limit of the bytes of request line and header fields; in HTTP/2 always 64 KiB.",
        "The limit of Go's server, and so of Knative's.",
    )
    unfinished_header_bytes: int = setting(
        values.SIZE, "ACTIVATOR_UNFINISHED_HEADER_BYTES", REQUESTS, "32MiB",
        "Limit of the bytes of in-progress request heads, for all clients; the last quarter is "
        "for heads of up to 8 KiB.",
        "24 of the largest heads fit.",
    )
    unread_bytes: int = setting(
        values.SIZE, "ACTIVATOR_UNREAD_BYTES", REQUESTS, "128MiB",
        "Limit of the bytes of responses that clients do not read and of requests that pods do "
        "not read. Each response may hold 64 KiB, above half of the limit 16 KiB, except a new "
        "stream of HTTP/2. Each upload in HTTP/1.1 may hold 256 KiB, and so may 32 responses of "
        "at least as many bytes. At the limit, the connection or stream without progress for "
        "longest ends.",
        "Enough for 2,048 clients that read nothing, within 1 GiB.",
    )
    max_headers: int = setting(
        values.count(1), "ACTIVATOR_MAX_HEADERS", REQUESTS, "1000",
        "Limit of the header fields of a request in HTTP/1.1; in HTTP/2 only their bytes are "
        "limited.",
        "Ten times Apache's limit.",
    )
    max_target_bytes: int = setting(
        values.SIZE, "ACTIVATOR_MAX_TARGET_BYTES", REQUESTS, "64KiB",
        "Limit of the bytes of the request target (path and query) in HTTP/1.1; in HTTP/2 it is a "
        "header field.",
        "Eight times the default limit of nginx and Apache.",
    )
    header_timeout: float = setting(
        values.duration(), "ACTIVATOR_HEADER_TIMEOUT", REQUESTS, "60s",
        "Time from the first byte of a request head to its end; for the first request of a "
        "connection, from the start of the connection.",
        "Knative's ReadHeaderTimeout.",
    )

    max_idle_proxy_conns: int = setting(
        values.count(0, note=" (0: no limit)"), "MAX_IDLE_PROXY_CONNS", PODS, "1000",
        "Limit of idle connections to all pods; 0 sets no limit.",
        add_on="KEDA_HTTP_MAX_IDLE_CONNS",
    )
    max_idle_proxy_conns_per_host: int = setting(
        values.count(1), "MAX_IDLE_PROXY_CONNS_PER_HOST", PODS, "100",
        "Idle connections to one pod that stay open for 90 s. Above this number stay as many as "
        "requests used in the last 15 to 30 s.",
        "Knative's default, there a limit.",
        add_on="KEDA_HTTP_MAX_IDLE_CONNS_PER_HOST", add_on_zero="2", keda="200",
    )
    connect_timeout: float = setting(
        values.duration(), "ACTIVATOR_CONNECT_TIMEOUT", PODS, "1s",
        "Time to open a connection to a pod; then the activator requeues the request. A TLS "
        "handshake may take five times as long, at most 10 s.",
        "Long enough for one lost SYN.",
        add_on="KEDA_HTTP_CONNECT_TIMEOUT", add_on_zero="1m", keda="500ms",
    )
    readiness_policy: str = setting(
        values.choice("auto", "probe", "kubernetes"), "ACTIVATOR_READINESS_POLICY", PODS, "auto",
        "What makes a pod usable, without the annotation activator.dev/readiness-policy. probe: "
        "the activator's probe. kubernetes: also Kubernetes' list. auto: kubernetes if a "
        "container has an exec readiness probe or a startup probe, else probe. Use kubernetes if "
        "queue-proxy does not poll sidecars (Knative before 1.14).",
        "A cold start waits for Kubernetes only where it must.",
    )
    probe_timeout: float = setting(
        values.duration(), "PROBE_TIMEOUT", PODS, "300ms",
        "Time-out of the first probe of a pod; later ones follow the measured round trips.",
    )
    probe_frequency: float = setting(
        values.duration(), "PROBE_FREQUENCY", PODS, "200ms",
        "Time between the first probes of a pod while no request is queued; it doubles with each "
        "failure up to 30 s. While a request is queued, it is 5 ms, or 25 ms to 200 ms after a "
        "\"not ready\" response.",
    )
    max_probes: int = setting(
        values.count(1), "ACTIVATOR_MAX_PROBES", PODS, "256",
        "Limit of probes in flight.",
        "Hundreds of pods may start at once, within 1024 open files.",
    )

    lame_duck: float = setting(
        values.duration(zero=True), "ACTIVATOR_LAME_DUCK", ENDING, "45s",
        "Time after SIGTERM in which the activator serves all requests, but is not ready.",
        "Knative's time for load balancers to remove the activator.",
        local="0s",
        add_on="KEDA_HTTP_SHUTDOWN_DELAY", keda=SHUTDOWN_DELAY,
    )
    drain_timeout: float = setting(
        values.duration(zero=True), "ACTIVATOR_DRAIN_TIMEOUT", ENDING, "525s",
        "Time after the lame duck for requests to end; then the activator closes their "
        "connections.",
        "With lame duck, last responses and telemetry (13 s) it fits into the grace period of 600 "
        "s.",
        local="30s", demo="2s",
        add_on="KEDA_HTTP_DRAIN_TIMEOUT", add_on_zero="1h", keda=DRAIN_TIMEOUT,
    )

    log_format: str = setting(
        values.choice("auto", "json", "console"), "ACTIVATOR_LOG_FORMAT", LOGGING, "auto",
        "JSON lines or readable lines; auto: readable lines in a terminal.",
        "Right in pod and terminal.",
        demo="console",
        add_on="--zap-encoder",
    )
    log_level: str = setting(
        values.choice("debug", "info", "warning", "error"), "ACTIVATOR_LOG_LEVEL", LOGGING, "info",
        "Lowest severity in the log; the logging ConfigMap may change it later.",
        "Knative's default.",
        demo="warning",
        add_on="--zap-log-level",
    )

    otel_service_name: str = _without_demo(
        values.NAME, "OTEL_SERVICE_NAME", OTEL, "activator",
        "Service name in traces and metrics.",
        "Knative's name for it.",
        keda="keda-http-interceptor",
    )
    otel_exporter_otlp_endpoint: str | None = _otel(
        values.COLLECTOR, "OTEL_EXPORTER_OTLP_ENDPOINT", "the ConfigMap's value",
        "Collector of traces and metrics. It wins over the endpoints of the observability "
        "ConfigMap, which still turns them on and chooses the protocol. Over HTTP the activator "
        "adds /v1/traces or /v1/metrics.",
    )
    otel_exporter_otlp_traces_endpoint: str | None = _otel(
        values.COLLECTOR, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "the collector for both",
        "Collector of traces, used unchanged; wins over the collector for both.",
        "One collector usually accepts both.",
    )
    otel_exporter_otlp_metrics_endpoint: str | None = _otel(
        values.COLLECTOR, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "the collector for both",
        "Collector of metrics, used unchanged; wins over the collector for both.",
        "One collector usually accepts both.",
    )
    otel_metric_export_interval: int | None = _otel(
        values.count(1), "OTEL_METRIC_EXPORT_INTERVAL", "the ConfigMap's value",
        "Milliseconds between two pushes of metrics; wins over the ConfigMap.",
    )
    otel_traces_sampler: str | None = _otel(
        values.choice(
            "always_on", "always_off", "traceidratio", "parentbased_always_on",
            "parentbased_always_off", "parentbased_traceidratio",
        ),
        "OTEL_TRACES_SAMPLER", "the ConfigMap's sampling rate",
        "Sampler that chooses the traced requests; wins over the ConfigMap.",
    )
    otel_traces_sampler_arg: float | None = _otel(
        values.SHARE, "OTEL_TRACES_SAMPLER_ARG", "the ConfigMap's sampling rate",
        "Share of traced requests, from 0 to 1; wins over the ConfigMap.",
    )

    keda_readiness_timeout: float = _add_on(
        values.duration(zero=True), "0s", "KEDA_CONDITION_WAIT_TIMEOUT KEDA_HTTP_READINESS_TIMEOUT",
        "Limit of the wait for a pod, for route objects (HTTPScaledObject and InterceptorRoute) "
        "without an own one; then 504. 0 for none.",
    )
    keda_request_timeout: float = _add_on(
        values.duration(zero=True), "0s", "KEDA_HTTP_REQUEST_TIMEOUT",
        "Limit from the arrival of a request to the end of its response, for route objects "
        "without an own one. 0 for none.",
    )
    keda_response_header_timeout: float = _add_on(
        values.duration(zero=True), "300s",
        "KEDA_RESPONSE_HEADER_TIMEOUT KEDA_HTTP_RESPONSE_HEADER_TIMEOUT",
        "Limit from the assignment of a pod to the head of its response, for route objects "
        "without an own one. 0 for none.",
    )
    keda_max_pending: int = _add_on(
        values.count(0, note=" (0: no limit)"), "0", "KEDA_HTTP_COLD_START_MAX_PENDING_REQUESTS",
        "Limit of waiting requests of a route object without an own one; 0 sets no limit.",
        reason="The limits of the queue count, too.",
    )
    keda_cold_start_header: bool = _add_on(
        values.BOOLEAN, "true", "KEDA_HTTP_ENABLE_COLD_START_HEADER",
        "Whether responses of pods have the field X-KEDA-HTTP-Cold-Start.",
    )
    keda_watch_namespace: str | None = _add_on(
        values.optional(values.DNS_LABEL, "all namespaces"), "", "KEDA_HTTP_WATCH_NAMESPACE",
        "The only namespace whose route objects count; empty for all namespaces.",
    )
    keda_tls: bool = _add_on(
        values.BOOLEAN, "false", "KEDA_HTTP_PROXY_TLS_ENABLED",
        "Whether the activator listens on `--https-port` with the certificates of the next "
        "settings, read again when they change.",
    )
    keda_tls_cert: str = _add_on(
        values.TEXT, "/certs/tls.crt", "KEDA_HTTP_PROXY_TLS_CERT_PATH",
        "PEM file with the certificate for clients that name no host of another certificate.",
    )
    keda_tls_key: str = _add_on(
        values.TEXT, "/certs/tls.key", "KEDA_HTTP_PROXY_TLS_KEY_PATH",
        "PEM file with the private key of that certificate.",
    )
    keda_tls_stores: str = _add_on(
        values.TEXT, "", "KEDA_HTTP_PROXY_TLS_CERT_STORE_PATHS",
        "Folders, separated by commas, of further certificates: x.crt or x.pem with x.key or "
        "x-key.pem, also in folders within. A client that names one of its hosts gets it.",
        "One certificate is usually sufficient.",
    )
    keda_tls_skip_verify: bool = _add_on(
        values.BOOLEAN, "false", "KEDA_HTTP_TLS_SKIP_VERIFY KEDA_HTTP_PROXY_TLS_SKIP_VERIFY",
        "Whether the activator accepts any certificate of a pod. Requests that arrive over TLS go "
        "to pods over TLS.",
    )
    keda_tls_ca_dirs: str = _add_on(
        values.TEXT, "", "KEDA_HTTP_TLS_CA_DIRS",
        "Folders, separated by commas, of PEM files with more certificate authorities that verify "
        "pods, read at start.",
        "Only some pods speak TLS.",
    )
    keda_log_requests: bool = _add_on(
        values.BOOLEAN, "false", "KEDA_HTTP_LOG_REQUESTS",
        "Whether each request gets a line in the Combined Log Format, on stdout. The ConfigMap of "
        "`--config-observability-name` wins, if the activator reads it.",
    )
    keda_otlp_metrics: bool = _add_on(
        values.BOOLEAN, "false", "OTEL_EXPORTER_OTLP_METRICS_ENABLED",
        "Whether the activator pushes metrics by OTLP over HTTP. The same ConfigMap wins.",
    )
    keda_otlp_traces: bool = _add_on(
        values.BOOLEAN, "false", "OTEL_EXPORTER_OTLP_TRACES_ENABLED",
        "Whether the activator sends traces. The same ConfigMap wins.",
    )
    keda_otlp_protocol: str = _add_on(
        values.choice("console", "http/protobuf", "grpc"), "console",
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
        "Where traces go: console is stdout.",
    )

    admin_url: str = setting(
        values.url("http", "https"), "ACTIVATOR_ADMIN_URL", CLIENT, ADMIN_URL,
        "Admin port of the activator to query.",
        "That of a local activator, or of the one in the same pod.",
        commands=ASKING,
    )
    scaler_admin_url: str = setting(
        values.url("http", "https", empty="no query"), "ACTIVATOR_SCALER_ADMIN_URL", CLIENT,
        SCALER_ADMIN_URL,
        "Admin port of the scaler, which `activator explain` queries about a Service; empty for "
        "no query.",
        "The scaler knows why a Service has no pods.",
        commands=("explain",), empty_is_value=True,
    )


    @property
    def tls(self) -> TlsParameters:
        """The TLS parameters of the listener for traffic."""
        return TlsParameters(self.tls_min_version, self.tls_max_version, self.tls_cipher_suites,
                             self.tls_curve_preferences)


# fmt: on


SETTINGS: Final[tuple[SettingRow, ...]] = rows(Settings)
"""The table, in the order of the fields; a default may depend on rows above it only."""


_DIALECT: Final = next(row for row in SETTINGS if row.name == "dialect")


def settings_of(command: str) -> tuple[SettingRow, ...]:
    """Return the rows that one command reads."""
    return tuple(row for row in SETTINGS if command in row.commands)


def load(
    command: str,
    flags: Mapping[str, str | None],
    environ: Mapping[str, str] = os.environ,
    *,
    resolv_conf: Path = RESOLV_CONF,
) -> Settings:
    """Read every setting of one command.

    Arguments:
        command: one of COMMANDS; also chooses among defaults.
        flags: the command line's values by setting name; None or absent means not given.
        environ: the environment variables.
        resolv_conf: a file that may name the cluster's domain.

    Raises:
        ConfigError: lists all wrong and all missing settings; without any, all contradictions.
    """
    sources = Sources(command, flags, environ, resolv_conf)
    with contextlib.suppress(ValueError):  # find_all reports it
        sources.known["dialect"] = find(_DIALECT, sources)
    return Settings(command=command, **find_all(SETTINGS, sources, contradictions))


def contradictions(known: Mapping[str, Any]) -> list[str]:
    """Return one sentence for each contradiction, for which the activator refuses to start.

    Arguments:
        known: the value of each setting, by its name.
    """
    return _shared_ports(known) + _tls(known) + _held(known) + _unfinished(known)


def _held(known: Mapping[str, Any]) -> list[str]:
    return [
        f"hold_bytes ({known['hold_bytes']} bytes) is larger than {budget} ({known[budget]} "
        f"bytes): one request alone would not fit; lower the one or raise the other."
        for budget in ("hold_bytes_per_revision", "hold_bytes_total")
        if known["hold_bytes"] > known[budget]
    ]


def _unfinished(known: Mapping[str, Any]) -> list[str]:
    one, all_of_them = known["max_header_bytes"], known["unfinished_header_bytes"]
    if one <= all_of_them - all_of_them // 4:
        return []
    return [
        f"max_header_bytes ({one} bytes) is larger than three quarters of unfinished_header_bytes "
        f"({all_of_them} bytes): the largest heads would not fit; lower the one or raise the other."
    ]


def _tls(known: Mapping[str, Any]) -> list[str]:
    problems = [
        f"{end}tls_min_version (1.3) is above {end}tls_max_version (1.2): no version is left."
        for end in ("", "metrics_")
        if known[f"{end}tls_min_version"] > known[f"{end}tls_max_version"] != ""
    ]
    pair = {name: known[name] for name in ("metrics_tls_cert", "metrics_tls_key")}
    if any(pair.values()) and not all(pair.values()):
        problems.append(" and ".join(pair) + " belong together: give both or neither.")
    auth, ca = known["metrics_tls_client_auth"], known["metrics_tls_client_ca_file"]
    if (auth != "none" or ca) and not any(pair.values()):
        problems.append(
            "metrics_tls_client_auth and metrics_tls_client_ca_file need TLS on the metrics port: "
            "give metrics_tls_cert and metrics_tls_key, too."
        )
    elif auth != "none" and not ca:
        problems.append(
            f"metrics_tls_client_auth is {auth}, but metrics_tls_client_ca_file is empty: give the "
            f"certificate authorities for clients."
        )
    elif ca and auth == "none":
        problems.append(
            "metrics_tls_client_ca_file is given, and metrics_tls_client_auth is none: set it to "
            "optional or require, or leave out the file."
        )
    return problems


def _shared_ports(known: Mapping[str, Any]) -> list[str]:
    # https_port is left out: it is open only with TLS, and this module does not know that.
    addresses = {
        "http_port": known["bind"],
        "h2c_port": known["bind"],
        "admit_port": known["bind"],
        "metrics_port": known["metrics_bind"],
        "profiling_port": known["bind"],
        "admin_port": known["admin_bind"],
    }
    names = list(addresses)
    return [
        f"{one} and {other} are both {known[one]} on {addresses[one]}: give each its own port, "
        f"or 0 to pick a free one."
        for position, one in enumerate(names)
        for other in names[position + 1 :]
        if known[one] == known[other] not in (0, None)
        and _overlap(addresses[one], addresses[other])
    ]


def _overlap(one: str, other: str) -> bool:
    return one == other or not {"0.0.0.0", "::"}.isdisjoint({one, other})
