// @ts-check
/** The sentences of the page. Pure. */

import { counted, finely } from "./format.js";
import { unitOf } from "./model.js";
// @ts-ignore: activator/admin/assets.py makes this module from throttler/reason.py
import { AT_ZERO, DELETED, HARMLESS, LISTS_PODS, NO_SERVER, OF_STARTS, REASONS, STARTING, WITHOUT_PODS } from "./reasons.js";

/** @typedef {import("./model.js").RevisionView} RevisionView */
/** @typedef {import("./model.js").ActivatorEvent} ActivatorEvent */
/** @typedef {import("./model.js").ObjectWarning} ObjectWarning */

/** Warnings about objects on a page, at most; the rest is a number (as in activator/console/explain.py). */
const LISTED_WARNINGS = 5;

/** @typedef {{advice: string, commands: string[]}} Steps */
/** @typedef {Record<"revision" | "service", string>} OfBoth a route has the texts of a Service */
/** @type {Record<string, {meaning: OfBoth, revision: Steps, service: Steps, route?: Steps, inFolder: OfBoth}>} */
const ROWS = REASONS;

/** @param {string | undefined} kind @returns {"revision" | "service"} an older activator sends no kind: it knows no Services */
function kindOf(kind) {
  return kind === undefined || kind === "revision" ? "revision" : "service";
}

/** @param {RevisionView} view @returns {boolean} whether it is an object of the KEDA HTTP add-on, or its fallback */
function isRoute({ kind }) {
  return kindOf(kind) === "service" && kind !== "service";
}

/**
 * Return the words for one and for several of these objects: Revisions, Services, or both.
 * @param {Iterable<{view: RevisionView}>} known
 * @returns {[string, string]}
 */
export function namesOf(known) {
  const kinds = new Set([...known].map(({ view }) => (isRoute(view) ? "route" : kindOf(view.kind))));
  if (kinds.size !== 1) return ["revision or Service", "revisions and Services"];
  if (kinds.has("route")) return ["route", "routes"];
  return kinds.has("service") ? ["Service", "Services"] : ["revision", "revisions"];
}

/**
 * Return reason and detail as a sentence; an unknown word is returned unchanged.
 * @param {string} reason
 * @param {string | null | undefined} detail
 * @param {string} [kind] of the view or the event
 * @returns {string}
 */
export function reasonSentence(reason, detail, kind) {
  const meaning = ROWS[reason]?.meaning[kindOf(kind)] ?? reason;
  return detail ? `${meaning.replace(/\.$/, "")} (${detail}).` : meaning;
}

/**
 * Return the first steps for a reason: sentences, and commands to copy.
 * @param {string} reason
 * @param {RevisionView} view
 * @param {string | null} folder the folder of manifests; null for a cluster
 * @returns {{text: string, command: boolean}[]}
 */
export function whatToDo(reason, view, folder) {
  const kind = kindOf(view.kind);
  if (view.deleted) return [{ text: DELETED[isRoute(view) ? "route" : kind], command: false }];
  const row = ROWS[reason];
  if (!row) return [];
  if (folder !== null && row.inFolder[kind]) {
    return [{ text: row.inFolder[kind].replaceAll("{folder}", () => folder), command: false }];
  }
  const atZero = !view.queued && !view.failedStarts && WITHOUT_PODS.includes(reason) && folder === null;
  const wrong = reason === "no-endpoints" && folder === null ? causes(view) : [];
  if (wrong.length) return withoutEffect(wrong).map((text) => ({ text: `Correct ${text}`, command: false }));
  if (startsNormally(view)) return [{ text: STARTING, command: false }];
  if (atZero) return [{ text: view.authorization?.url === "" ? NO_SERVER : AT_ZERO, command: false }];
  const steps = (isRoute(view) && row.route) || row[kind];
  // Names of Kubernetes objects have no characters with a special meaning in a shell.
  const commands = steps.commands.map((command) =>
    command
      .replaceAll("{namespace}", () => view.namespace)
      .replaceAll("{name}", () => (isRoute(view) && view.route?.podsService) || view.name)
      .replaceAll("{pods}", () => view.route?.podsService ?? view.name),
  );
  return [
    { text: steps.advice, command: false },
    ...commands.map((text) => ({ text, command: true })),
  ];
}

/** @param {RevisionView} view @returns {ObjectWarning[]} warnings that may leave it without pods (as in activator/console/explain.py) */
function causes({ objectWarnings = [] }) {
  return objectWarnings.filter((one) => LISTS_PODS.includes(one.kind) || !HARMLESS.includes(one.reason ?? ""));
}

/** @param {RevisionView} view @returns {boolean} whether a start is not late, and none failed before (as in activator/console/explain.py) */
export function startsNormally({ failedStarts: n, forecast, reason, nextReason }) {
  const took = forecast?.startingSeconds;
  return !n && known(took) && OF_STARTS.includes(reason ?? nextReason) && took <= (forecast?.startSeconds || 30);
}

/** @param {RevisionView} view @param {number} later seconds since the response @returns {string} the start in progress */
export function startText({ forecast }, later) {
  if (!known(forecast?.startingSeconds)) return "";
  const usual = forecast?.startSeconds;
  return ` Starting for ${finely(forecast.startingSeconds + later)}${usual ? `; usually ${finely(usual)}` : ""}.`;
}

/** @param {RevisionView} view @returns {string} how many cold starts failed, and why the last one did */
export function failedStarts({ failedStarts: n, coldStarts }) {
  const last = coldStarts?.find((one) => one.why);
  const why = last ? ` The last one: ${last.outcome ?? "under way"}; ${last.why}.` : "";
  return n ? `${counted(n, "cold start")} failed in a row.${why}` : "";
}

const KUBERNETES_TOO = "it passes the activator's probe and Kubernetes lists it as ready";

/** @param {string} rule `readinessRule` @returns {string} the rule in words */
export function readiness(rule) {
  if (rule === "probe") return "it passes the activator's probe";
  if (rule === "no-probe") return "Kubernetes lists it as ready; the activator does not probe";
  return `${KUBERNETES_TOO}: ${rule}`;
}

/** Shorter forecasts count as no wait, because a forecast is an average. */
const NOTICEABLE = 0.005;

/** @param {RevisionView} view @returns {string[]} the forecast in sentences */
export function forecasts(view) {
  const texts = [];
  const { startSeconds, drainSecondsPerRequest, expectedWaitSeconds } = view.forecast ?? {};
  const unit = unitOf(view);
  if (known(expectedWaitSeconds)) {
    const waits = expectedWaitSeconds >= NOTICEABLE;
    const wait = waits ? `wait about ${finely(expectedWaitSeconds)}` : "not wait";
    texts.push(`a new ${unit} would ${wait}`);
  }
  if (known(startSeconds)) texts.push(`a start takes about ${finely(startSeconds)}`);
  if (known(drainSecondsPerRequest)) {
    texts.push(`a ${unit} leaves the queue about every ${finely(drainSecondsPerRequest)}`);
  }
  return texts;
}

/** @param {number | null | undefined} value @returns {value is number} */
function known(value) {
  return value !== null && value !== undefined;
}

/**
 * Describe a failed request, or a connection that was closed: it has no status.
 * @param {{status: number, reason: string, detail?: string | null} | ActivatorEvent} failed
 */
export function failure({ status, reason, detail }) {
  return `${status || "closed,"} ${reason}${detail ? ` (${detail})` : ""}`;
}

/** @param {ObjectWarning[] | undefined} warnings @returns {string[]} objects without effect, a sentence each */
export function withoutEffect(warnings = []) {
  const texts = warnings.map((one) => `${one.kind} ${one.namespace}/${one.name}: ${one.warning}`);
  const more = texts.splice(LISTED_WARNINGS).length;
  return more ? [...texts, `and ${counted(more, "more warning")}`] : texts;
}

/**
 * Say that a page has no revision. An object of that name may be unusable.
 * @param {string} names NAMESPACE/NAME
 * @param {ObjectWarning[] | undefined} warnings of the activator
 */
export function noRevision(names, warnings = []) {
  const about = warnings.filter((one) => `${one.namespace}/${one.name}` === names);
  return ["This activator has no revision, Service or route object of this name.", ...withoutEffect(about)].join(" ");
}

/** @type {Record<string, (event: ActivatorEvent) => string>} */
const EVENT_TEXTS = {
  "pod-changed": (event) => {
    const what = event.clusterIP ? "ClusterIP" : "pod";
    const was = event.was && event.was !== event.state ? `${event.was} → ` : "";
    return `${what} ${event.address}: ${was}${event.state}; ${event.why}`;
  },
  "capacity-changed": (event) =>
    `capacity: ${event.was ?? "no limit"} → ${event.capacity ?? "no limit"}, ${event.inFlight} in flight`,
  "queue-began": (event) => `the queue began: ${reasonSentence(event.reason, event.detail, event.revisionKind)}`,
  "queue-ended": (event) =>
    `the queue is empty after ${finely(event.seconds)}; ${counted(event.waited, "request")} waited`,
  "failed": (event) => `${counted(event.requests, event.status ? "request" : "connection")} failed: ${failure(event)}`,
  missed: () => "some events are missing here",
  "cold-start-finished": (event) =>
    `cold start ended, ${event.outcome}, after ${finely(event.seconds)}; ${counted(event.requests, "request")} waited for it`,
};

/** @param {ActivatorEvent} event @returns {string} the event as a sentence; an unknown kind by its name */
export function eventText(event) {
  return EVENT_TEXTS[event.kind]?.(event) ?? event.kind;
}

/**
 * The texts of the readiness response, and their meaning (as in activator/console/status.py).
 * @type {Record<string, string>}
 */
const NOT_READY = {
  "connection has not yet been established": "no connection to the autoscaler",
  "received SIGTERM from kubelet": "it is shutting down, and ends after its requests",
};

/** @param {string} why `notReadyReason` @returns {string} the text for people */
export function notReady(why) {
  return NOT_READY[why] ?? why;
}
