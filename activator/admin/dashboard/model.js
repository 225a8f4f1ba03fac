// @ts-check
/**
 * What the API's answers are, and what follows from one of them. Pure: neither page nor network.
 *
 * The fields are told in docs/reference.md; what an older activator does not send is undefined, and
 * words that a newer one has added are shown as they are.
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
 * @property {string | null} lastError
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
 */

/**
 * @typedef {object} Forecast
 * @property {number | null} startSeconds
 * @property {number | null} drainSecondsPerRequest
 * @property {number | null} expectedWaitSeconds
 */

/**
 * A request that was not served.
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
 * @property {boolean} [deleted]
 * @property {number} containerConcurrency
 * @property {string} protocol
 * @property {number} timeoutSeconds
 * @property {string} readinessRule
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
 * @property {Forecast} [forecast]
 * @property {number} activatorIndex
 * @property {number} activatorCount
 * @property {PodView | null} [clusterIP]
 * @property {PodView[]} pods
 * @property {string | null} [nextReason] only of a revision asked for alone, as what follows
 * @property {string | null} [nextReasonDetail]
 * @property {Record<string, number>} [failures]
 * @property {ColdStartView[]} [coldStarts]
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
 * @property {Record<string, {ageSeconds: number | null, error: string | null}>} watches
 * @property {{folder: string, ageSeconds: number} | null} manifests
 * @property {AutoscalerView | null} autoscaler
 */

/**
 * Something that happened, as the stream tells it.
 * @typedef {{kind: string, time: string, revision: string} & Record<string, any>} Happening
 */

/** @param {{namespace: string, name: string}} view how a revision is written: NAMESPACE/NAME */
export function keyOf(view) {
  return `${view.namespace}/${view.name}`;
}

/**
 * How many requests can be at pods at a time, as a number; Infinity without a limit.
 * @param {RevisionView} view
 */
export function capacityOf(view) {
  if (view.capacity === null || view.capacity === undefined) return Infinity;
  return view.capacity > 0 && view.containerConcurrency === 0 ? Infinity : view.capacity;
}

/**
 * For how long the first request of a revision waits, in seconds; times are in milliseconds.
 * @param {{view: RevisionView, at: number}} known
 * @param {number} now
 */
export function ageOf({ view, at }, now) {
  return (view.oldestWaiterSeconds ?? 0) + Math.max(0, now - at) / 1000;
}

/**
 * How long ago a request of a revision last failed, in seconds; Infinity if none did.
 * @param {{view: RevisionView, at: number}} known
 * @param {number} now
 */
export function failedAgo({ view, at }, now) {
  return (view.lastFailure?.secondsAgo ?? Infinity) + Math.max(0, now - at) / 1000;
}

/** What the rules that keep a pod out for what it did are called as reasons to wait. */
const OUT = { "probe-failed": "probe-failing", "answered-badly": "bad-answers" };

/**
 * Why a new request would hang although Kubernetes lists ready pods; empty if it would
 * not, or somebody waits and is told.
 * @param {RevisionView} view
 */
export function trouble(view) {
  if (view.reason || view.clusterIP?.usable || view.pods.some((pod) => pod.usable)) return "";
  const out = view.pods.find((pod) => pod.kubernetes === "ready" && pod.decidedBy in OUT);
  return out ? OUT[/** @type {keyof typeof OUT} */ (out.decidedBy)] : "";
}

/**
 * What a revision does, in a word or two; of one whose requests wait, why.
 * @param {RevisionView} view
 */
export function stateOf(view) {
  if (view.reason) return view.reason;
  if (view.deleted) return "deleted";
  if (view.clusterIP?.usable) return "serving by ClusterIP";
  if (view.pods.some((pod) => pod.usable)) return view.inFlight ? "serving" : "ready";
  if (trouble(view)) return `${trouble(view)} (no request waits)`;
  return view.pods.some((pod) => pod.state !== "gone") ? "starting" : "scaled to zero";
}

/**
 * What pods are counted as, in this order, with the letter that stands for it.
 * @typedef {"in use" | "shared" | "waiting" | "failing" | "draining" | "left"} PodKind
 * @type {Record<PodKind, {letter: string, words: string}>}
 */
export const POD_KINDS = {
  "in use": { letter: "✓", words: "in use" },
  shared: { letter: "+", words: "of another activator's share, used when the own share is full" },
  waiting: { letter: "…", words: "not ready yet" },
  failing: { letter: "!", words: "failing" },
  draining: { letter: "↓", words: "draining" },
  left: { letter: "–", words: "left alone" },
};

/** @param {PodView} pod @returns {PodKind} */
export function podKind(pod) {
  if (pod.decision === "use") return pod.inSlice === false ? "shared" : "in use";
  if (pod.state === "draining") return "draining";
  if (pod.decision === "leave") return "left";
  // One that Kubernetes does not call ready is expected to refuse, as any does that starts.
  return pod.lastError && pod.kubernetes !== "not-ready" ? "failing" : "waiting";
}

/**
 * Pods by what they are counted as; those that are gone are left out, a ClusterIP in use is a pod.
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
