"""Every setting, in one table: what it is called, what it means, its default and the reason.

The fields of ``Settings`` *are* the table: the command line's options, their help and the table
in docs/reference.md are made from it, so none of them can tell another story. A flag wins over
the environment variable, the variable over the default. Wrong values are refused all at once.
Must not know what a setting does to the program, nor write anything anywhere.
Knative's counterparts: the ``config`` struct in cmd/activator/main.go and the constants around
it; its environment variables keep their names, so its Deployment works unchanged.

``python -m activator.settings.config`` prints the tables of docs/reference.md.
"""

# ruff: noqa: RUF009 - setting() wraps dataclasses.field, which the linter cannot see

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from activator.settings import defaults, values
from activator.settings import tls_parameters as parameters
from activator.settings.contradictions import contradictions
from activator.settings.setting import (
    ASKING,
    REQUIRED,
    Setting,
    Sources,
    find,
    markdown,
    rows,
    setting,
)

LISTENERS = "Listeners"
IDENTITY = "Who and where this activator is"
TLS = "TLS"
CLUSTER = "Cluster"
LAPTOP = "Without a cluster"
WAITING = "Waiting requests"
REQUESTS = "What a request may be"
PODS = "Pods"
ENDING = "Ending"
LOGGING = "Logs"
OTEL = "Traces and metrics by OpenTelemetry"
CLIENT = "Asking a running activator"


# One row is one block; the formatter would give each word a line of its own.
# fmt: off
@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What this process was told; made by ``load`` and never changed.

    Durations are seconds, sizes are bytes. Ports are as asked for: 0 means any free one.
    """

    command: str

    http_port: int = setting(
        values.PORT, "ACTIVATOR_HTTP_PORT", LISTENERS, "8012",
        "Port for traffic; it takes HTTP/1.1 and HTTP/2 (h2c).",
        "Knative's activator-service forwards port 80 to it.",
    )
    h2c_port: int = setting(
        values.PORT, "ACTIVATOR_H2C_PORT", LISTENERS, "8013",
        "Second port for traffic; it takes what the first one takes.",
        "Knative's activator-service forwards port 81 to it.",
    )
    https_port: int = setting(
        values.PORT, "ACTIVATOR_HTTPS_PORT", LISTENERS, "8112",
        "Port for traffic over TLS; open only with `system-internal-tls` in config-network.",
        "Knative's activator-service forwards port 443 to it.",
    )
    metrics_port: int = setting(
        values.METRICS_PORT, "METRICS_PROMETHEUS_PORT", LISTENERS, "9090",
        "Port on which Prometheus finds /metrics.",
        "Knative's activator-service names this port http-metrics.",
    )
    admin_port: int = setting(
        values.PORT, "ACTIVATOR_ADMIN_PORT", LISTENERS, "8080",
        "Port of the admin side: health, metrics and API.",
        "A free port in Knative's pod, and the one `activator status` asks.",
    )
    profiling_port: int = setting(
        values.PORT, "PROFILING_PORT", LISTENERS, "8008",
        "Port of profiles; it tells nothing unless the observability ConfigMap has "
        "`runtime-profiling: enabled`.",
        "Knative's activator-service names this port http-profiling; on a laptop any will do.",
        local="0",
    )
    bind: str = setting(
        values.ADDRESS, "ACTIVATOR_BIND", LISTENERS, "0.0.0.0",
        "Address on which traffic and metrics are taken.",
        "The ingress comes from other nodes; the demonstration is for this machine alone.",
        demo="127.0.0.1",
    )
    admin_bind: str = setting(
        values.ADDRESS, "ACTIVATOR_ADMIN_BIND", LISTENERS, "127.0.0.1",
        "Address on which the admin side is taken.",
        "It has no password, so only this machine and `kubectl port-forward` reach it.",
    )
    admin_hosts: tuple[str, ...] = setting(
        values.HOSTS, "ACTIVATOR_ADMIN_HOSTS", LISTENERS, "",
        "Host names, with commas between, by which the admin side may be asked besides localhost "
        "and any address; others are answered 421.",
        "A web page whose name was made to lead to this machine must not read it.",
    )
    metrics_bind: str = setting(
        values.ADDRESS, "METRICS_PROMETHEUS_HOST", LISTENERS, defaults.BIND,
        "Address on which metrics are taken.",
        "Prometheus comes from where traffic comes from.",
    )

    tls_min_version: str = setting(
        parameters.MIN_VERSION, "ACTIVATOR_TLS_MIN_VERSION", TLS, "1.3",
        "Oldest TLS version that the port for TLS takes.",
        "Knative's default.",
        commands=("run", "local"),
    )
    tls_max_version: str = setting(
        parameters.MAX_VERSION, "ACTIVATOR_TLS_MAX_VERSION", TLS, "",
        "Newest TLS version that the port for TLS takes; empty is the newest there is.",
        "There is no reason to refuse a newer one.",
        commands=("run", "local"),
    )
    tls_cipher_suites: tuple[str, ...] = setting(
        parameters.CIPHER_SUITES, "ACTIVATOR_TLS_CIPHER_SUITES", TLS, "",
        "Cipher suites of TLS 1.2 that it takes, by Go's names with commas between; empty leaves "
        "it to OpenSSL. Those of TLS 1.3 are all on.",
        "OpenSSL keeps its list up to date.",
        commands=("run", "local"),
    )
    tls_curve_preferences: tuple[str, ...] = setting(
        parameters.CURVES, "ACTIVATOR_TLS_CURVE_PREFERENCES", TLS, "",
        "Curves for its key exchange, by Go's names with commas between; of several, the first "
        "that OpenSSL knows is used alone. Empty leaves it to OpenSSL.",
        "OpenSSL keeps its list up to date.",
        commands=("run", "local"),
    )
    metrics_tls_cert: str = setting(
        values.TEXT, "METRICS_PROMETHEUS_TLS_CERT", TLS, "",
        "PEM file with the certificate of the metrics port, read again when it changes; empty "
        "means plain HTTP.",
        "Knative's default.",
        commands=("run", "local"),
    )
    metrics_tls_key: str = setting(
        values.TEXT, "METRICS_PROMETHEUS_TLS_KEY", TLS, "",
        "PEM file with its key.",
        "Knative's default.",
        commands=("run", "local"),
    )
    metrics_tls_client_auth: str = setting(
        parameters.CLIENT_AUTH, "METRICS_PROMETHEUS_TLS_CLIENT_AUTH", TLS, "none",
        "Whether clients of the metrics port show a certificate; optional checks what is shown.",
        "Knative's default.",
        commands=("run", "local"),
    )
    metrics_tls_client_ca_file: str = setting(
        values.TEXT, "METRICS_PROMETHEUS_TLS_CLIENT_CA_FILE", TLS, "",
        "PEM file with the certificates by which those of clients are checked.",
        "Nobody can guess it.",
        commands=("run", "local"),
    )
    metrics_tls_min_version: str = setting(
        parameters.MIN_VERSION, "METRICS_PROMETHEUS_TLS_MIN_VERSION", TLS, "1.3",
        "Oldest TLS version that the metrics port takes.",
        "Knative's default.",
        commands=("run", "local"),
    )
    metrics_tls_max_version: str = setting(
        parameters.MAX_VERSION, "METRICS_PROMETHEUS_TLS_MAX_VERSION", TLS, "",
        "Newest TLS version that the metrics port takes; empty is the newest there is.",
        "There is no reason to refuse a newer one.",
        commands=("run", "local"),
    )
    metrics_tls_cipher_suites: tuple[str, ...] = setting(
        parameters.CIPHER_SUITES, "METRICS_PROMETHEUS_TLS_CIPHER_SUITES", TLS, "",
        "As `--tls-cipher-suites`, for the metrics port.",
        "OpenSSL keeps its list up to date.",
        commands=("run", "local"),
    )
    metrics_tls_curve_preferences: tuple[str, ...] = setting(
        parameters.CURVES, "METRICS_PROMETHEUS_TLS_CURVE_PREFERENCES", TLS, "",
        "As `--tls-curve-preferences`, for the metrics port.",
        "OpenSSL keeps its list up to date.",
        commands=("run", "local"),
    )

    pod_name: str = setting(
        values.NAME, "POD_NAME", IDENTITY, REQUIRED,
        "Name of this activator in logs and in the statistics it sends.",
        "The autoscaler adds up activators by this name, so two must not share one.",
        local=defaults.HOST_NAME,
    )
    pod_ip: str = setting(
        values.ADDRESS, "POD_IP", IDENTITY, REQUIRED,
        "Own address, looked up among the activators of a revision to find the own share of pods.",
        "Only the cluster knows it.",
        local=defaults.BIND,
    )
    system_namespace: str = setting(
        values.DNS_LABEL, "SYSTEM_NAMESPACE", IDENTITY, REQUIRED,
        "Namespace of Knative's ConfigMaps and of the autoscaler.",
        "A wrong guess would read another installation's configuration.",
        local="knative-serving",
    )
    cluster_domain: str = setting(
        values.DOMAIN, "CLUSTER_DOMAIN", IDENTITY, defaults.CLUSTER_DOMAIN,
        "Domain of the cluster's service names.",
        "The kubelet writes it into resolv.conf of each pod.",
    )

    kubeconfig: str = setting(
        values.TEXT, "KUBECONFIG", CLUSTER, "",
        "File that says how to reach the Kubernetes API; without one, the pod's service account, "
        "and outside of a cluster ~/.kube/config.",
        "In a cluster the pod's service account is all it takes.",
        commands=("run",), empty_is_value=True,
    )
    kubernetes_min_version: str = setting(
        values.VERSION, "KUBERNETES_MIN_VERSION", CLUSTER, "v1.34.0",
        "Oldest Kubernetes to start on.",
        "The oldest that Knative supports.",
        commands=("run",),
    )
    endpoints: str = setting(
        values.choice("auto", "endpoints", "slices"), "ACTIVATOR_ENDPOINTS", CLUSTER, "auto",
        "Objects that say where pods are; auto reads Endpoints, and EndpointSlices for a revision "
        "whose Endpoints are missing or cut off after 1,000 pods.",
        "What Knative reads, and more where that is not all of it; a role that does not allow "
        "slices does no harm.",
        commands=("run", "local"),
    )
    self_check_interval: float = setting(
        values.duration(zero=True), "ACTIVATOR_SELF_CHECK_INTERVAL", CLUSTER, "10m",
        "Time between two comparisons of what is known with a fresh list of the cluster, or of the "
        "files; 0 for none. What differs is counted, logged and mended.",
        "Seldom enough to cost the API server nothing, and no lost change lasts longer.",
        commands=("run", "local"),
    )
    config_logging_name: str = setting(
        values.OBJECT_NAME, "CONFIG_LOGGING_NAME", CLUSTER, "config-logging",
        "ConfigMap with the log levels.",
        "Knative's name for it.",
        commands=("run", "local"),
    )
    config_observability_name: str = setting(
        values.OBJECT_NAME, "CONFIG_OBSERVABILITY_NAME", CLUSTER, "config-observability",
        "ConfigMap with the settings of request log, metrics and traces.",
        "Knative's name for it.",
        commands=("run", "local"),
    )
    autoscaler_url: str = setting(
        values.url("ws", "wss", empty="no autoscaler"), "ACTIVATOR_AUTOSCALER_URL", CLUSTER,
        defaults.AUTOSCALER_URL,
        "WebSocket that takes the statistics which scale a service; empty turns it off.",
        "Where Knative's autoscaler listens; a laptop has none.",
        local="", commands=("run", "local"), empty_is_value=True,
    )
    ready_without_autoscaler: bool = setting(
        values.BOOLEAN, "ACTIVATOR_READY_WITHOUT_AUTOSCALER", CLUSTER, "false",
        "Whether kubelet's probe passes while the autoscaler is not connected.",
        "Knative's probe fails then, so that traffic is led around an activator that can wake "
        "nothing.",
        commands=("run", "local"),
    )

    manifests: Path | None = setting(
        values.FOLDER, "ACTIVATOR_MANIFESTS", LAPTOP, "",
        "Folder with the objects as YAML or JSON, read at start and again whenever a file changes.",
        "It stands in for the cluster, so there is nothing to guess.",
        local=REQUIRED, demo="", commands=("local",),
    )

    queue_depth: int = setting(
        values.count(1), "ACTIVATOR_QUEUE_DEPTH", WAITING, "10000",
        "Requests that may wait for one revision; the next one is answered 503.",
        "The depth that Knative names.",
    )
    queue_depth_total: int = setting(
        values.count(1), "ACTIVATOR_QUEUE_DEPTH_TOTAL", WAITING, "100000",
        "Requests that may wait in all; the last quarter is for revisions of which few wait.",
        "Ten full queues: at 3 to 4 KiB for each request 300 to 400 MiB.",
    )
    hold_bytes: int = setting(
        values.SIZE, "ACTIVATOR_HOLD_BYTES", WAITING, "64KiB",
        "Bytes of one request after which no more is read while it waits; TCP holds back the rest. "
        "What one read brings, up to 256 KiB, is kept.",
        "Holds a usual form or JSON body, which can then be sent again to another pod.",
    )
    hold_bytes_per_revision: int = setting(
        values.SIZE, "ACTIVATOR_HOLD_BYTES_PER_REVISION", WAITING, "64MiB",
        "Bytes of waiting requests that are held for one revision.",
        "Hundreds of requests with large bodies, and a quarter of what is held in all.",
    )
    hold_bytes_total: int = setting(
        values.SIZE, "ACTIVATOR_HOLD_BYTES_TOTAL", WAITING, "256MiB",
        "Bytes of waiting requests that are held in all; the last quarter is for revisions that "
        "hold little.",
        "Four revisions at their bound. With full queues up to 656 MiB: less than the 1 GiB of our "
        "manifests, more than Knative's 600 MiB, within which to lower this and the depth.",
    )
    shed_early: bool = setting(
        values.BOOLEAN, "ACTIVATOR_SHED_EARLY", WAITING, "false",
        "Whether a request that would wait beyond its time-out, by what was seen of the revision, "
        "is answered 503 at once.",
        "Knative lets it wait. Turn it on where a quick no is worth more than a late one; clients "
        "that will have left the queue by then are not foreseen.",
    )
    borrow: bool = setting(
        values.BOOLEAN, "ACTIVATOR_BORROW", WAITING, "true",
        "Whether an idle pod outside the own share is used before a request waits.",
        "A wait beside an idle pod helps nobody; turn it off to share pods as Knative does.",
    )
    server_timing: bool = setting(
        values.BOOLEAN, "ACTIVATOR_SERVER_TIMING", WAITING, "false",
        "Whether answers to requests that waited say for how long and for what, in the header "
        "`Server-Timing`.",
        "Any client can read it, and Knative's activator adds nothing to an answer.",
    )
    cold_start_header: bool = setting(
        values.BOOLEAN, "ACTIVATOR_COLD_START_HEADER", WAITING, "false",
        "Whether each answer says in the header `Activator-Cold-Start`, true or false, whether "
        "its request waited for a pod to start.",
        "Knative's activator adds nothing to an answer, and each answer costs a little more.",
    )

    idle_from_arrival: bool = setting(
        values.BOOLEAN, "ACTIVATOR_IDLE_FROM_ARRIVAL", WAITING, "false",
        "Whether a revision's idleTimeoutSeconds also counts while a request waits for a pod.",
        "A cold start is no silence of the application; turn it on to time out as Knative does.",
    )

    max_header_bytes: int = setting(
        values.SIZE, "ACTIVATOR_MAX_HEADER_BYTES", REQUESTS, "1MiB",
        "Bytes of request line and headers together; in HTTP/2 they are 64 KiB, as SETTINGS say.",
        "What Go's server takes, and so Knative's.",
    )
    unfinished_header_bytes: int = setting(
        values.SIZE, "ACTIVATOR_UNFINISHED_HEADER_BYTES", REQUESTS, "32MiB",
        "Bytes of headers that have not come to their end, of all clients together; the last "
        "quarter is for those of up to 8 KiB.",
        "Hardly any headers come in pieces, and the largest are still taken, 24 at a time.",
    )
    unread_bytes: int = setting(
        values.SIZE, "ACTIVATOR_UNREAD_BYTES", REQUESTS, "128MiB",
        "Bytes of responses that clients do not read and of requests that pods do not read, in "
        "total. Each response may hold 64 KiB, and each upload in HTTP/1.1 256 KiB. Above half of "
        "this limit, a response may hold 16 KiB; a new stream of HTTP/2 may still hold 64 KiB. At "
        "the limit, the connection or stream without progress for longest ends.",
        "Enough for 2,048 clients that read nothing. With every other limit reached, it fits into "
        "the 1 GiB of our manifests.",
    )
    max_headers: int = setting(
        values.count(1), "ACTIVATOR_MAX_HEADERS", REQUESTS, "1000",
        "Headers of one request in HTTP/1.1; in HTTP/2 their bytes bound them.",
        "Ten times what Apache takes, and cheap to parse.",
    )
    max_target_bytes: int = setting(
        values.SIZE, "ACTIVATOR_MAX_TARGET_BYTES", REQUESTS, "64KiB",
        "Bytes of the request target (path and query) in HTTP/1.1; in HTTP/2 it is a header.",
        "Eight times what nginx and Apache take in their default set-up.",
    )
    header_timeout: float = setting(
        values.duration(), "ACTIVATOR_HEADER_TIMEOUT", REQUESTS, "60s",
        "Time from the first byte of a request to the end of its headers; for the first request "
        "of a connection, from the connection on.",
        "Knative's ReadHeaderTimeout.",
    )

    max_idle_proxy_conns: int = setting(
        values.count(0, note=" (0: no limit)"), "MAX_IDLE_PROXY_CONNS", PODS, "1000",
        "Idle connections to pods that are kept in all; 0 sets no limit.",
        "Knative's default.",
    )
    max_idle_proxy_conns_per_host: int = setting(
        values.count(1), "MAX_IDLE_PROXY_CONNS_PER_HOST", PODS, "100",
        "Idle connections that are kept to one pod.",
        "Knative's default.",
    )
    connect_timeout: float = setting(
        values.duration(), "ACTIVATOR_CONNECT_TIMEOUT", PODS, "1s",
        "Time for a connection to a pod to open; after it the request goes back to its queue.",
        "Long enough for one lost SYN on a slow path, short enough to try another pod.",
    )
    readiness_policy: str = setting(
        values.choice("auto", "probe", "kubernetes"), "ACTIVATOR_READINESS_POLICY", PODS, "auto",
        "What makes a pod usable, for revisions without the annotation "
        "activator.dev/readiness-policy. probe: it passed the activator's probe. kubernetes: it is "
        "also listed as ready. auto: kubernetes if a container has an exec readiness probe or a "
        "startup probe, otherwise probe. Use kubernetes if queue-proxy does not poll sidecars "
        "(Knative before 1.14).",
        "Saves a cold start the seconds until Kubernetes notices, where that is safe.",
    )
    probe_timeout: float = setting(
        values.duration(), "PROBE_TIMEOUT", PODS, "300ms",
        "Time for the first probe of a pod; later ones follow the round trips that were seen.",
        "Knative's default.",
    )
    probe_frequency: float = setting(
        values.duration(), "PROBE_FREQUENCY", PODS, "200ms",
        "Time between the first probes of a pod while no request waits; it doubles with each "
        "failure up to 30 s. While a request waits, it is 5 ms, or 25 ms to 200 ms after a \"not "
        "ready\" response.",
        "Knative's default.",
    )
    max_probes: int = setting(
        values.count(1), "ACTIVATOR_MAX_PROBES", PODS, "256",
        "Probes in flight at a time.",
        "Covers a service of hundreds of pods that starts at once, within 1024 descriptors.",
    )

    lame_duck: float = setting(
        values.duration(zero=True), "ACTIVATOR_LAME_DUCK", ENDING, "45s",
        "After SIGTERM, time of serving on as before while readiness says no.",
        "The time Knative gives load balancers to look away; a laptop has none.",
        local="0s",
    )
    drain_timeout: float = setting(
        values.duration(zero=True), "ACTIVATOR_DRAIN_TIMEOUT", ENDING, "525s",
        "After that, time for requests in flight and waiting to end; then they are cut.",
        "With the lame duck's 45 s, the last answers and what telemetry still sends (13 s) it "
        "stays within the pod's 600 s of grace, with some to spare.",
        local="30s", demo="2s",
    )

    log_format: str = setting(
        values.choice("auto", "json", "console"), "ACTIVATOR_LOG_FORMAT", LOGGING, "auto",
        "JSON lines for machines or readable ones; auto asks whether stderr is a terminal.",
        "Right in a pod and in a terminal alike.",
    )
    log_level: str = setting(
        values.choice("debug", "info", "warning", "error"), "ACTIVATOR_LOG_LEVEL", LOGGING, "info",
        "Least severity that is logged; the logging ConfigMap may change it later.",
        "Knative's default. The demo narrates each event itself.",
        demo="warning",
    )

    otel_service_name: str = setting(
        values.NAME, "OTEL_SERVICE_NAME", OTEL, "activator",
        "Name under which traces and metrics are sent.",
        "Knative's name for it.",
        commands=("run", "local"),
    )
    otel_exporter_otlp_endpoint: str | None = setting(
        values.optional(values.COLLECTOR, "what the ConfigMap says"),
        "OTEL_EXPORTER_OTLP_ENDPOINT", OTEL, "",
        "Collector for traces and metrics; wins over the endpoints of the observability "
        "ConfigMap, which still says whether and how they are sent. Over HTTP /v1/traces or "
        "/v1/metrics is added.",
        "The ConfigMap is the place that all of Knative's parts share.",
        commands=("run", "local"),
    )
    otel_exporter_otlp_traces_endpoint: str | None = setting(
        values.optional(values.COLLECTOR, "that of both"),
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", OTEL, "",
        "Collector for traces, taken as it is; wins over the one for both.",
        "One collector takes both as a rule.",
        commands=("run", "local"),
    )
    otel_exporter_otlp_metrics_endpoint: str | None = setting(
        values.optional(values.COLLECTOR, "that of both"),
        "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", OTEL, "",
        "Collector for metrics, taken as it is; wins over the one for both.",
        "One collector takes both as a rule.",
        commands=("run", "local"),
    )
    otel_metric_export_interval: int | None = setting(
        values.optional(values.count(1), "what the ConfigMap says"),
        "OTEL_METRIC_EXPORT_INTERVAL", OTEL, "",
        "Milliseconds between two pushes of metrics; wins over the ConfigMap.",
        "The ConfigMap is the place that all of Knative's parts share.",
        commands=("run", "local"),
    )
    otel_traces_sampler: str | None = setting(
        values.optional(
            values.choice(
                "always_on", "always_off", "traceidratio", "parentbased_always_on",
                "parentbased_always_off", "parentbased_traceidratio",
            ),
            "the ConfigMap's sampling rate",
        ),
        "OTEL_TRACES_SAMPLER", OTEL, "",
        "Which requests are traced; wins over the ConfigMap.",
        "The ConfigMap is the place that all of Knative's parts share.",
        commands=("run", "local"),
    )
    otel_traces_sampler_arg: float | None = setting(
        values.optional(values.SHARE, "the ConfigMap's sampling rate"),
        "OTEL_TRACES_SAMPLER_ARG", OTEL, "",
        "Share of the requests that is traced; wins over the ConfigMap.",
        "The ConfigMap is the place that all of Knative's parts share.",
        commands=("run", "local"),
    )

    admin_url: str = setting(
        values.url("http", "https"), "ACTIVATOR_ADMIN_URL", CLIENT, "http://127.0.0.1:8080",
        "Admin side of the activator to ask.",
        "Where a local one listens, and where `kubectl port-forward` leads.",
        commands=ASKING,
    )


# fmt: on


SETTINGS: Final[tuple[Setting, ...]] = rows(Settings)
"""The table, in the order of the fields; a default may depend on rows above it only."""


class ConfigError(ValueError):
    """Settings that cannot be used; ``problems`` holds one sentence for each, all at once."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problems))


def settings_of(command: str) -> tuple[Setting, ...]:
    """The rows that one command reads."""
    return tuple(row for row in SETTINGS if command in row.commands)


def load(
    command: str,
    flags: Mapping[str, str | None],
    environ: Mapping[str, str] = os.environ,
    *,
    resolv_conf: Path = defaults.RESOLV_CONF,
) -> Settings:
    """Read every setting of one command.

    Arguments:
        command: one of COMMANDS; also chooses among defaults.
        flags: what the command line said, by setting name; None or absent is not said.
        environ: the environment variables.
        resolv_conf: where the cluster's domain may be found.

    Raises:
        ConfigError: with all wrong and all missing settings, or else with those that contradict
            each other.
    """
    sources = Sources(command, flags, environ, resolv_conf)
    problems: list[str] = []
    for row in SETTINGS:
        try:
            sources.known[row.name] = find(row, sources)
        except ValueError as error:
            problems.append(str(error))
    problems = problems or contradictions(sources.known)
    if problems:
        raise ConfigError(problems)
    return Settings(command=command, **sources.known)


if __name__ == "__main__":
    print(markdown(SETTINGS))
