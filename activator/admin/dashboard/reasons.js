// @ts-check
/**
 * Why requests wait, in a sentence each, and what to do about it: the words of throttler/reason.py
 * and activator/console/advice.py, which a test holds this to. JSON but for its name.
 */

/**
 * `{namespace}`, `{name}` and `{folder}` are filled in by who shows it.
 * @type {Record<string, {meaning: string, inCluster: string, inFolder: string}>}
 */
export const REASONS = {
  "autoscaler-unreachable": {
    "meaning": "Kubernetes lists no pod of this revision, and the autoscaler, which has one made, cannot be reached.",
    "inCluster": "See whether it runs:\nkubectl get pods -n knative-serving -l app=autoscaler",
    "inFolder": "See whether it runs where ACTIVATOR_AUTOSCALER_URL says."
  },
  "no-endpoints": {
    "meaning": "Kubernetes lists no pod of this revision.",
    "inCluster": "A pod that does not come is pending or not wanted; see\nkubectl get podautoscaler,pods -n {namespace} -l serving.knative.dev/revision={name}",
    "inFolder": "A pod is known once an Endpoints object of the private Service has it, in the folder\n{folder}"
  },
  "pods-not-ready": {
    "meaning": "Pods are listed, but none may be used yet.",
    "inCluster": "The table of pods shows the rule that keeps each pod from use. To see which container is not ready:\nkubectl get pods -n {namespace} -l serving.knative.dev/revision={name} -o 'custom-columns=POD:.metadata.name,IP:.status.podIP,CONTAINER:.status.containerStatuses[*].name,READY:.status.containerStatuses[*].ready'\nTo see why it is not ready:\nkubectl describe pods -n {namespace} -l serving.knative.dev/revision={name}",
    "inFolder": "The table of pods shows the rule that keeps each pod from use. Whether a pod is listed as ready\nis in the Endpoints objects of the folder {folder}"
  },
  "probe-failing": {
    "meaning": "Kubernetes lists pods as ready, but the activator's own probe of them fails.",
    "inCluster": "The table of pods says what the probes met; what queue-proxy says of it:\nkubectl logs -n {namespace} -l serving.knative.dev/revision={name} -c queue-proxy",
    "inFolder": "The table of pods says what the probes met. The addresses are those of the Endpoints\nobjects of the folder {folder}"
  },
  "bad-answers": {
    "meaning": "Pods answer the activator's own probe, but their answers to requests speak against them.",
    "inCluster": "queue-proxy is well and the container behind it is not; why:\nkubectl logs -n {namespace} -l serving.knative.dev/revision={name} -c user-container --previous",
    "inFolder": "What listens at these addresses answers probes and is not well: see its log. The addresses\nare those of the Endpoints objects of the folder {folder}"
  },
  "at-capacity": {
    "meaning": "All pods have as many requests as they may have at a time.",
    "inCluster": "The next goes on when one of those ends. More at a time takes more pods (max-scale,\ntarget) or a higher containerConcurrency:\nkubectl get podautoscaler -n {namespace} -l serving.knative.dev/revision={name} -o yaml",
    "inFolder": "The next goes on when one of those ends. More at a time takes more addresses in the\nEndpoints or a higher containerConcurrency in the Revision, in the folder {folder}"
  }
};

/** Comes first where nobody waits and no pod is listed, which is no fault of a service at zero. */
export const AT_ZERO =
  "Nothing while nobody waits: the first request of a service at zero starts a pod.";

/** In place of all advice where the Revision object is gone. */
export const DELETED =
  "Apply the Revision again, if it was not meant to go: until then each request of it that waits does so in vain.";
