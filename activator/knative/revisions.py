"""Parse a serving.knative.dev/v1 Revision object into the throttler's record of it.

Pure: the result is a record or ``ManifestError``.
Knative's counterpart: pkg/apis/serving/v1 (RevisionSpec, GetProtocol, GetContainerConcurrency) and
the readiness rules of pkg/activator/net/revision_backends.go.
"""

from __future__ import annotations

from typing import Final

from activator.knative.words import (
    CONFIGURATION_LABEL,
    FULL_DUPLEX_ANNOTATION,
    QUEUE_PROXY,
    SERVICE_LABEL,
)
from activator.objects import policies
from activator.objects.fields import Field, Problems, identify, root
from throttler.model import NO_POLICIES, AppProtocol, ReadinessRule, Revision, RevisionID

READINESS_POLICY_ANNOTATION = "activator.dev/readiness-policy"
READINESS_POLICIES = ("auto", "probe", "kubernetes")

#: A Revision object without fields: the throttler's record has the defaults. They are Knative's,
#: whose webhook adds them before the API server stores an object.
DEFAULTS: Final = Revision(RevisionID("", ""))


def parse(obj: object, readiness_policy: str = "auto") -> Revision:
    """Return the revision that a Revision object describes.

    A missing field has its value in ``DEFAULTS``; an explicit 0 stays 0.

    Arguments:
        obj: the object as decoded from JSON or YAML.
        readiness_policy: what makes a pod usable if no annotation says so. ``probe``: it passed
            the activator's probe. ``kubernetes``: Kubernetes also lists it as ready. ``auto``:
            as ``probe`` if queue-proxy polls every probe of the pod, else as ``kubernetes``.

    Raises:
        ManifestError: a field or an annotation is invalid. The error has the revision with safe
            defaults if only annotations of the activator are.
    """
    key = identify(obj, "Revision")
    revision = root(obj, "Revision")
    spec, metadata = revision["spec"], revision["metadata"]
    labels = metadata["labels"]
    containers = list(spec["containers"].items())
    # The container that gets the traffic: the one with ports, else the first one.
    with_ports = (each for each in containers if each["ports"].sequence())
    serving = next(with_ports, containers[0] if containers else None)
    annotations, problems = metadata["annotations"], Problems()
    readiness = annotations.at(READINESS_POLICY_ANNOTATION)
    policy = problems.read(lambda: readiness.one_of(READINESS_POLICIES, strip=True))
    chosen = problems.read(lambda: policies.parse(annotations))
    found = Revision(
        id=RevisionID(key.namespace, key.name),
        uid=metadata["uid"].text(),
        container_concurrency=spec["containerConcurrency"].whole(
            default=DEFAULTS.container_concurrency
        ),
        protocol=_protocol(serving),
        timeout=_seconds(spec["timeoutSeconds"], DEFAULTS.timeout),
        response_start_timeout=_seconds(
            spec["responseStartTimeoutSeconds"], DEFAULTS.response_start_timeout
        ),
        idle_timeout=_seconds(spec["idleTimeoutSeconds"], DEFAULTS.idle_timeout),
        readiness=_readiness(containers, policy or readiness_policy),
        full_duplex=annotations.at(FULL_DUPLEX_ANNOTATION).text().lower() == "enabled",
        service=labels.at(SERVICE_LABEL).text(),
        probe=QUEUE_PROXY,
        configuration=labels.at(CONFIGURATION_LABEL).text(),
        policies=chosen or NO_POLICIES,
    )
    return problems.settle(found)


def _seconds(field: Field, default: float) -> float:
    return float(field.whole(default=int(default)))


def _protocol(serving: Field | None) -> AppProtocol:
    ports = list(serving["ports"].items()) if serving else []
    return AppProtocol.H2C if ports and ports[0]["name"].text() == "h2c" else AppProtocol.HTTP1


def _readiness(containers: list[Field], policy: str) -> ReadinessRule:
    # An invalid probe is an error under each policy, so all containers are parsed.
    blind = [_blind_to(container) for container in containers]
    if policy == "kubernetes":
        return ReadinessRule.KUBERNETES_POLICY
    if policy == "probe":
        return ReadinessRule.PROBE
    return next(filter(None, blind), ReadinessRule.PROBE)


def _blind_to(container: Field) -> ReadinessRule | None:
    """Return the rule for a probe that queue-proxy does not run in this container, or None.

    queue-proxy runs neither commands nor startup probes. It polls the other readiness probes of all
    containers. Knative's webhook admits a sidecar's probes only with ``multi-container-probing``.
    """
    readiness = container["readinessProbe"].mapping()
    if "exec" in readiness:
        return ReadinessRule.EXEC_READINESS_PROBE
    has_startup = container["startupProbe"].value is not None
    return ReadinessRule.STARTUP_PROBE if has_startup else None
