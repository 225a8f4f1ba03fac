// @ts-check
/**
 * The types of the API's responses, and functions of one response. Pure.
 *
 * docs/reference.md describes the fields. A field that an older activator does not send is
 * undefined. The page shows unknown words of a newer activator unchanged.
 */

/**
 * @typedef {object} PodView
 * @property {string} address
 * @property {string} uid
 * @property {string} kubernetes
 * @property {string} probe
 * @property {number | null} probeStatus
 * @property {number | null} lastProbeSecondsAgo
 * @property {string} state
 * @property {number | null} stateSecondsAgo
 * @property {boolean} usable
 * @property {string} decision
 * @property {string} decidedBy
 * @property {string} explanation
 * @property {number} inFlight
 * @property {number | null} silentSeconds
 * @property {number | null} limit
 * @property {number | null} [adaptiveLimit]
 * @property {string | null} lastError
 * @property {string | null} [zone]
 * @property {boolean | null} [near]
 * @property {boolean} inSlice
 */

/**
 * @typedef {object} ColdStartView
 * @property {string} began
 * @property {string | null} outcome
 * @property {number | null} seconds
 * @property {number} requests
 * @property {string | null} pod
 * @property {Record<string, number>} phases
 * @property {number | null} probeAheadSeconds
 * @property {string | null} [why]
 */

/**
 * @typedef {object} Forecast
 * @property {number | null} startSeconds
 * @property {number | null} [startingSeconds]
 * @property {number | null} drainSecondsPerRequest
 * @property {number | null} expectedWaitSeconds
 */

/**
 * A request that got an error response.
 * @typedef {object} Failed
 * @property {number} secondsAgo
 * @property {number} status
 * @property {string} reason
 * @property {string | null} detail
 */

/**
 * @typedef {object} RevisionView
 * @property {string} namespace
 * @property {string} name
 * @property {string} [kind] revision, service, http-route or fallback
 * @property {boolean} [deleted]
 * @property {number} containerConcurrency
 * @property {string} protocol
 * @property {number} timeoutSeconds
 * @property {string} readinessRule
 * @property {string} [loadBalancing]
 * @property {string | null} [hashKey]
 * @property {{key: string, overflow: string, kept: number, hashed: number, overflowed: number,
 *   waited: number} | null} [sticky]
 * @property {string} [adaptiveConcurrency]
 * @property {import("./revision.js").QueueOrder | null} [queueOrder]
 * @property {{agent: string, requestsPerMinute: number}[]} [keptAwakeBy]
 * @property {Record<string, any> | null} [wakeRules]
 * @property {{podsService?: string} | null} [route]
 * @property {{url: string, always: boolean} | null} [authorization]
 * @property {{modes: string[], queuedByMode: Record<string, number>, leaseSeconds: number} | null}
 *   [whileWaiting]
 * @property {string | null} [profile]
 * @property {number | null} [waitSeconds]
 * @property {number | null} capacity
 * @property {{way: string, sentence: string}} [capacityBreakdown]
 * @property {number} inFlight
 * @property {number} queued
 * @property {number | null} oldestWaiterSeconds
 * @property {number} queueDepth
 * @property {number} heldBytes
 * @property {string | null} reason
 * @property {string | null} reasonDetail
 * @property {Failed | null} [lastFailure]
 * @property {number} [failedStarts]
 * @property {Forecast} [forecast]
 * @property {number} activatorIndex
 * @property {number} activatorCount
 * @property {PodView | null} [clusterIP]
 * @property {PodView[]} pods
 * @property {string | null} [nextReason] this and the next fields: only in the document of one revision
 * @property {string | null} [nextReasonDetail]
 * @property {Record<string, number>} [failures]
 * @property {ObjectWarning[]} [objectWarnings]
 * @property {ColdStartView[]} [coldStarts]
 */

/**
 * A valid object without effect.
 * @typedef {{kind: string, namespace: string, name: string, warning: string, reason?: string | null}} ObjectWarning
 */

/**
 * @typedef {object} AutoscalerView
 * @property {boolean} connected
 * @property {number | null} ageSeconds
 * @property {string | null} lastError
 */

/**
 * @typedef {object} ActivatorView
 * @property {string} podName
 * @property {string} version
 * @property {"pure" | "compiled"} build
 * @property {number} uptimeSeconds
 * @property {boolean} ready
 * @property {string | null} notReadyReason
 * @property {Record<string, string>} manifestErrors
 * @property {ObjectWarning[]} [objectWarnings]
 * @property {string[]} [certificateWarnings] older activators have none
 * @property {Record<string, {ageSeconds: number | null, error: string | null}>} watches
 * @property {{folder: string, ageSeconds: number} | null} manifests
 * @property {AutoscalerView | null} autoscaler
 * @property {AutoscalerView | null} [scaler] older activators have none
 * @property {string | null} [scalerPage] address of the scaler's page
 */

/**
 * An event of the stream.
 * @typedef {{kind: string, time: string, revision: string} & Record<string, any>} ActivatorEvent
 */

/** @type {Record<string, string>} the first word of keys, by kind; a Revision has none */
const WORDS = { service: "Service ", "http-route": "Route ", fallback: "Fallback " };

/**
 * Return the key of a revision: NAMESPACE/NAME, for a plain Service with the word Service before.
 * @param {{kind?: string, namespace: string, name: string}} view older activators send no kind
 */
export function keyOf({ kind, namespace, name }) {
  return keyOfNames(kind, `${namespace}/${name}`);
}

/** @param {string | undefined} kind @param {string} names NAMESPACE/NAME @returns {string} the key */
export function keyOfNames(kind, names) {
  return (WORDS[kind ?? ""] ?? "") + names;
}

/** @param {string} key @returns {{kind: string, names: string}} its parts */
export function partsOf(key) {
  const known = Object.entries(WORDS).find(([, word]) => key.startsWith(word));
  return known ? { kind: known[0], names: key.slice(known[1].length) } : { kind: "revision", names: key };
}

/**
 * Return how many requests can be in flight; Infinity without a limit.
 * @param {RevisionView} view
 */
export function capacityOf(view) {
  if (view.capacity === null || view.capacity === undefined) return Infinity;
  return view.capacity > 0 && view.containerConcurrency === 0 ? Infinity : view.capacity;
}

/**
 * Return how long the first queued request has waited, in seconds; times are in milliseconds.
 * @param {{view: RevisionView, at: number}} known
 * @param {number} now
 */
export function ageOf({ view, at }, now) {
  return (view.oldestWaiterSeconds ?? 0) + Math.max(0, now - at) / 1000;
}

/**
 * Return how long ago a request last failed, in seconds; Infinity for never.
 * @param {{view: RevisionView, at: number}} known
 * @param {number} now
 */
export function failedAgo({ view, at }, now) {
  return (view.lastFailure?.secondsAgo ?? Infinity) + Math.max(0, now - at) / 1000;
}

/** The reason to wait for each rule that takes a failing pod out of use. */
const OUT = { "probe-failed": "probe-failing", "answered-badly": "bad-answers" };

/**
 * Return why a new request would wait although Kubernetes lists ready pods; empty if it would not
 * wait, or if requests are queued already.
 * @param {RevisionView} view
 */
export function trouble(view) {
  if (view.reason || view.clusterIP?.usable || view.pods.some((pod) => pod.usable)) return "";
  const out = view.pods.find((pod) => pod.kubernetes === "ready" && pod.decidedBy in OUT);
  return out ? OUT[/** @type {keyof typeof OUT} */ (out.decidedBy)] : "";
}

/**
 * Return the word for an element of the queue.
 * @param {RevisionView} view
 * @returns {"request" | "connection"}
 */
export function unitOf(view) {
  return view.protocol === "tcp" ? "connection" : "request";
}

/** The word in a sentence, not in a name, as in default/request-log (as in throttler/reason.py). */
const REQUEST = /(?<![\w./-])request(s?)(?![\w/-]|\.\w)/g;

/**
 * Return a text about requests; it speaks of connections if the protocol is TCP.
 * @param {string} text
 * @param {RevisionView} view
 */
export function worded(text, view) {
  return unitOf(view) === "request" ? text : text.replace(REQUEST, "connection$1");
}

/**
 * Return the state of a revision in a few words; the reason if requests wait.
 * @param {RevisionView} view
 */
export function stateOf(view) {
  if (view.reason) return view.reason;
  if (view.deleted) return "deleted";
  if (view.clusterIP?.usable) return "serving by ClusterIP";
  if (view.pods.some((pod) => pod.usable)) return view.inFlight ? "serving" : "ready";
  if (trouble(view)) return `${trouble(view)} (no ${unitOf(view)} waits)`;
  const starts = (view.forecast?.startingSeconds ?? null) !== null || view.pods.some((pod) => pod.state !== "gone");
  const state = starts ? "starting" : "scaled to zero";
  return view.failedStarts ? `${state}, cold starts failed` : state;
}

/**
 * The kinds of pods in order, with their letters.
 * @typedef {"in use" | "shared" | "waiting" | "failing" | "draining" | "left"} PodKind
 * @type {Record<PodKind, {letter: string, words: string}>}
 */
export const POD_KINDS = {
  "in use": { letter: "✓", words: "in use" },
  shared: { letter: "+", words: "of another activator's share, used when the own share is full" },
  waiting: { letter: "…", words: "not ready yet" },
  failing: { letter: "!", words: "failing" },
  draining: { letter: "↓", words: "draining" },
  left: { letter: "–", words: "not used by this activator" },
};

/** @param {PodView} pod @returns {PodKind} */
export function podKind(pod) {
  if (pod.decision === "use") return pod.inSlice === false ? "shared" : "in use";
  if (pod.state === "draining") return "draining";
  if (pod.decision === "leave") return "left";
  // A pod that is not ready for Kubernetes is probably starting, so refused connections are normal.
  return pod.lastError && pod.kubernetes !== "not-ready" ? "failing" : "waiting";
}

/**
 * Return the pods by kind, without removed pods; a ClusterIP in use counts as a pod.
 * @param {RevisionView} view
 * @returns {Map<PodKind, PodView[]>} in the order of POD_KINDS, without empty ones
 */
export function podsByKind(view) {
  const all = view.pods.filter((pod) => pod.state !== "gone");
  if (view.clusterIP?.usable) all.push(view.clusterIP);
  const kinds = /** @type {PodKind[]} */ (Object.keys(POD_KINDS));
  /** @type {[PodKind, PodView[]][]} */
  const groups = kinds.map((kind) => [kind, all.filter((pod) => podKind(pod) === kind)]);
  return new Map(groups.filter(([, pods]) => pods.length));
}
