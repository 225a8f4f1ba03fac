"""What Knative Serving's own release says of its activator, as far as a replacement must agree.

Facts of ``serving-core.yaml`` of v1.16.0 and v1.18.0, in which they are the same.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import trustme

NAMESPACE = "knative-serving"

#: Kind and name of each object that the release has for its activator.
OBJECTS = {
    ("ServiceAccount", "activator"),
    ("Role", "knative-serving-activator"),
    ("RoleBinding", "knative-serving-activator"),
    ("ClusterRole", "knative-serving-activator-cluster"),
    ("ClusterRoleBinding", "knative-serving-activator-cluster"),
    ("Deployment", "activator"),
    ("Service", "activator-service"),
    ("HorizontalPodAutoscaler", "activator"),
    ("PodDisruptionBudget", "activator-pdb"),
}

DEPLOYMENT_SELECTOR = {"app": "activator", "role": "activator"}
SERVICE_SELECTOR = {"app": "activator"}

#: Port of the Service by name, and the container's behind it.
SERVICE_PORTS = {
    "http-metrics": (9090, 9090),
    "http-profiling": (8008, 8008),
    "http": (80, 8012),
    "http2": (81, 8013),
    "https": (443, 8112),
}

#: The environment of the release's Deployment, with values as the cluster would fill them in.
ENVIRONMENT = {
    "GOGC": "500",
    "POD_NAME": "activator-5d8c7b9f4-x2x7k",
    "POD_IP": "10.1.0.7",
    "SYSTEM_NAMESPACE": "knative-serving",
    "CONFIG_LOGGING_NAME": "config-logging",
    "CONFIG_OBSERVABILITY_NAME": "config-observability",
    "METRICS_DOMAIN": "knative.dev/internal/serving",
}

#: What its Role (in the system namespace) and its ClusterRole let it get, list and watch: API
#: group and resource.
ROLE = {("", "configmaps"), ("", "secrets")}
CLUSTER_ROLE = {("", "services"), ("", "endpoints"), ("serving.knative.dev", "revisions")}


def config_map(name: str, data: dict[str, str]) -> dict[str, Any]:
    """A ConfigMap of the system namespace."""
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def routing_certificate(authority: trustme.CA) -> dict[str, Any]:
    """The Secret that Knative's certificate controller makes for activators."""
    leaf = authority.issue_cert("data-plane.knative.dev")
    data = {
        "tls.crt": leaf.cert_chain_pems[0].bytes(),
        "tls.key": leaf.private_key_pem.bytes(),
        "ca.crt": authority.cert_pem.bytes(),
    }
    metadata = {"name": "routing-serving-certs", "namespace": NAMESPACE}
    encoded = {key: b64encode(value).decode() for key, value in data.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": encoded}
