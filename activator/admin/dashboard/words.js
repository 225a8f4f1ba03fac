// @ts-check
/** What the page says, in sentences. Pure. */

import { counted, finely } from "./format.js";
// @ts-ignore: activator/admin/reason_script.py makes this module from throttler/reason.py
import { AT_ZERO, DELETED, REASONS } from "./reasons.js";

/** @typedef {import("./model.js").RevisionView} RevisionView */
/** @typedef {import("./model.js").Happening} Happening */

/** @type {Record<string, {meaning: string, advice: string, commands: string[], inFolder: string}>} */
const ROWS = REASONS;

/** @param {string} reason as a sentence; an unknown word, of a newer activator, stays a word */
export function meaning(reason) {
  return ROWS[reason]?.meaning ?? reason;
}

/** @param {string} reason @param {string | null | undefined} detail in a sentence */
export function because(reason, detail) {
  return detail ? `${meaning(reason).replace(/\.$/, "")} (${detail}).` : meaning(reason);
}

/**
 * The first steps for a reason: sentences, and commands to copy.
 * @param {string} reason
 * @param {RevisionView} view
 * @param {string | null} folder where objects come from; null for a cluster
 * @returns {{text: string, command: boolean}[]}
 */
export function whatToDo(reason, view, folder) {
  if (view.deleted) return [{ text: DELETED, command: false }];
  const row = ROWS[reason];
  if (!row) return [];
  if (folder !== null && row.inFolder) {
    return [{ text: row.inFolder.replaceAll("{folder}", () => folder), command: false }];
  }
  const atZero = !view.queued && reason === "no-endpoints" && folder === null;
  const sentences = atZero ? [AT_ZERO, row.advice] : [row.advice];
  // The names of Kubernetes' objects have no character with a meaning for a shell.
  const commands = row.commands.map((command) =>
    command.replaceAll("{namespace}", () => view.namespace).replaceAll("{name}", () => view.name),
  );
  return [
    { text: sentences.join(" "), command: false },
    ...commands.map((text) => ({ text, command: true })),
  ];
}

const KUBERNETES_TOO = "it passes the activator's probe and Kubernetes lists it as ready";

/** @param {string} rule `readinessRule`, in words */
export function readiness(rule) {
  return rule === "probe" ? "it passes the activator's probe" : `${KUBERNETES_TOO}: ${rule}`;
}

/** Seconds below which a wait is none: a forecast is an average, and not so exact. */
const NOTICEABLE = 0.005;

/** @param {RevisionView["forecast"]} forecast what is known of it, in sentences */
export function forecasts(forecast) {
  const told = [];
  const { startSeconds, drainSecondsPerRequest, expectedWaitSeconds } = forecast ?? {};
  if (known(expectedWaitSeconds)) {
    const waits = expectedWaitSeconds >= NOTICEABLE;
    const wait = waits ? `wait about ${finely(expectedWaitSeconds)}` : "not wait";
    told.push(`a new request would ${wait}`);
  }
  if (known(startSeconds)) told.push(`a start takes about ${finely(startSeconds)}`);
  if (known(drainSecondsPerRequest)) {
    told.push(`a request leaves the queue about every ${finely(drainSecondsPerRequest)}`);
  }
  return told;
}

/** @param {number | null | undefined} value @returns {value is number} */
function known(value) {
  return value !== null && value !== undefined;
}

/**
 * Why a request was not served.
 * @param {{status: number, reason: string, detail?: string | null} | Happening} failed
 */
export function failure({ status, reason, detail }) {
  return `${status} ${reason}${detail ? ` (${detail})` : ""}`;
}

/** @type {Record<string, (told: Happening) => string>} */
const HAPPENINGS = {
  "pod-changed": (told) => {
    const what = told.clusterIP ? "ClusterIP" : "pod";
    const was = told.was && told.was !== told.state ? `${told.was} → ` : "";
    return `${what} ${told.address}: ${was}${told.state}; ${told.why}`;
  },
  "capacity-changed": (told) =>
    `capacity: ${told.was ?? "no limit"} → ${told.capacity ?? "no limit"}, ${told.inFlight} in flight`,
  "queue-began": (told) => `the queue began: ${because(told.reason, told.detail)}`,
  "queue-ended": (told) =>
    `the queue is empty after ${finely(told.seconds)}; ${counted(told.waited, "request")} waited`,
  "failed": (told) => `${counted(told.requests, "request")} failed: ${failure(told)}`,
  missed: () => "some events are missing here",
  "cold-start-finished": (told) =>
    `cold start ended, ${told.outcome}, after ${finely(told.seconds)}; ${counted(told.requests, "request")} waited for it`,
};

/** @param {Happening} told what happened, in a sentence; a kind that is not known here by its name */
export function happened(told) {
  return HAPPENINGS[told.kind]?.(told) ?? told.kind;
}

/**
 * What kubelet is told, and what it means (as activator/console/staleness.py has it).
 * @type {Record<string, string>}
 */
const NOT_READY = {
  "connection has not yet been established": "no connection to the autoscaler",
  "received SIGTERM from kubelet": "it is shutting down, and ends after its requests",
};

/** @param {string} why `notReadyReason`, in words for people */
export function notReady(why) {
  return NOT_READY[why] ?? why;
}
