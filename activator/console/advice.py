"""What to do about each reason to wait: for people at a prompt.

The pages of docs/reasons say more. Must not know how any of it is found out or shown.
"""

from __future__ import annotations

from shlex import quote
from typing import Final

from throttler.reason import MEANINGS, Reason

_PODS: Final = "-n {namespace} -l serving.knative.dev/revision={name}"
#: Shows the readiness of each container of a pod; `kubectl get pods` shows only their number.
_CONTAINERS: Final = (
    "custom-columns=POD:.metadata.name,IP:.status.podIP,"
    "CONTAINER:.status.containerStatuses[*].name,READY:.status.containerStatuses[*].ready"
)

#: By reason, in a cluster; ``{namespace}`` and ``{name}`` are the revision's.
ADVICE: Final = {
    Reason.AUTOSCALER_UNREACHABLE: "See whether it runs:\n"
    "kubectl get pods -n knative-serving -l app=autoscaler",
    Reason.NO_ENDPOINTS: "A pod that does not come is pending or not wanted; see\n"
    f"kubectl get podautoscaler,pods {_PODS}",
    Reason.PODS_NOT_READY: "The table of pods shows the rule that keeps each pod from use. To see "
    "which container is not ready:\n"
    f"kubectl get pods {_PODS} -o '{_CONTAINERS}'\n"
    "To see why it is not ready:\n"
    f"kubectl describe pods {_PODS}",
    Reason.PROBE_FAILING: "The table of pods says what the probes met; what queue-proxy says of "
    "it:\n"
    f"kubectl logs {_PODS} -c queue-proxy",
    Reason.BAD_ANSWERS: "queue-proxy is well and the container behind it is not; why:\n"
    f"kubectl logs {_PODS} -c user-container --previous",
    Reason.AT_CAPACITY: "The next goes on when one of those ends. More at a time takes more pods "
    "(max-scale,\n"
    "target) or a higher containerConcurrency:\n"
    f"kubectl get podautoscaler {_PODS} -o yaml",
}

#: The same where the objects come from ``{folder}``: no kubectl leads there.
ADVICE_OF_FOLDER: Final = {
    Reason.AUTOSCALER_UNREACHABLE: "See whether it runs where ACTIVATOR_AUTOSCALER_URL says.",
    Reason.NO_ENDPOINTS: "A pod is known once an Endpoints object of the private Service has it, "
    "in the folder\n"
    "{folder}",
    Reason.PODS_NOT_READY: "The table of pods shows the rule that keeps each pod from use. Whether "
    "a pod is listed as ready\n"
    "is in the Endpoints objects of the folder {folder}",
    Reason.PROBE_FAILING: "The table of pods says what the probes met. The addresses are those of "
    "the Endpoints\n"
    "objects of the folder {folder}",
    Reason.BAD_ANSWERS: "What listens at these addresses answers probes and is not well: see its "
    "log. The addresses\n"
    "are those of the Endpoints objects of the folder {folder}",
    Reason.AT_CAPACITY: "The next goes on when one of those ends. More at a time takes more "
    "addresses in the\n"
    "Endpoints or a higher containerConcurrency in the Revision, in the folder {folder}",
}

#: Comes first where nobody waits and no pod is listed, which is no fault of a service at zero.
AT_ZERO: Final = "Nothing while nobody waits: the first request of a service at zero starts a pod."

#: In place of all of it where the Revision object is gone.
DELETED: Final = (
    "Apply the Revision again, if it was not meant to go: until then each request of it that "
    "waits does so in vain."
)


def meaning(reason: str) -> str:
    """Return a reason in a sentence; empty for the word of a newer activator."""
    return MEANINGS[Reason(reason)] if reason in _WORDS else ""


def what_to_do(reason: str, namespace: str, name: str, folder: str = "") -> list[str]:
    """Return what somebody can do about it, in lines; none for a word that is not known here.

    Arguments:
        folder: where the objects come from; empty for a cluster.
    """
    if reason not in _WORDS:
        return []
    words = {"namespace": quote(namespace), "name": quote(name)}  # they end up in a shell
    advice = ADVICE_OF_FOLDER if folder else ADVICE
    return advice.get(Reason(reason), "").format(**words, folder=folder).splitlines()


_WORDS: Final = frozenset(reason.value for reason in Reason)


def page_of(reason: str) -> str:
    """Return which page tells all about it."""
    return f"docs/reasons/{reason}.md"
