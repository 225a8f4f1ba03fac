// @ts-check
/** The sentences of the scaler's page. Pure. */

import { counted, seconds } from "../format.js";
// @ts-ignore: activator/scale/admin/application.py makes this module
import { REASONS } from "./reasons.js";

/** @typedef {{meaning: string, quiet: boolean, advice: string, commands: string[]}} Advice */
/** @typedef {{pod: string, leads: boolean, holder: string, error: string}} Leader */
/** @typedef {{reason: string, note: string}} Finding */
/** @typedef {{at: string, before: number, after: number, why: string, sentence: string}} Change */
/**
 * @typedef {object} Service as in activator/scale/admin/status.py
 * @property {string} namespace
 * @property {string} name
 * @property {string | null} target
 * @property {string} owner
 * @property {string} route
 * @property {string | null} phase
 * @property {{present: number | null, wanted: number | null, ready: number}} replicas
 * @property {boolean} active
 * @property {boolean} takesOver
 * @property {string | null} sentence
 * @property {string | null} reason
 * @property {string | null} detail
 * @property {{current: number, stable: number, panic: number, byActivator: Record<string, number>}} load
 * @property {Change | null} lastChange
 * @property {{sentence: string}} savings
 * @property {Finding[]} findings
 */
/** @typedef {{services: number, phases: Record<string, number>, problems: number, load: number}} Summary */
/** @typedef {{name: string, address: string, connected: boolean, connectedSeconds: number | null, lastReportSeconds: number | null, lostSeconds: number | null}} Activator */
/**
 * @typedef {object} Scaler as in activator/scale/admin/status.py
 * @property {Leader} leader
 * @property {string} namespace
 * @property {string} version
 * @property {number} uptimeSeconds
 * @property {string | null} notReadyReason
 * @property {Activator[]} activators
 * @property {Record<string, {ageSeconds: number, error: string}>} watches
 * @property {{kind: string, namespace: string, name: string, problem: string}[]} objects
 * @property {number} objectsTotal
 * @property {string | null} dashboard
 */

/** @type {Record<string, Advice>} */
const ROWS = REASONS;

/** @param {number} load requests, a mean @returns {string} */
export function loadText(load) {
  return load === Math.round(load) ? String(load) : load.toFixed(1);
}

/** @param {Service["replicas"]} replicas @returns {string} wanted, current, ready */
export function replicasText({ wanted, present, ready }) {
  return [wanted ?? "–", present ?? "–", ready].join(" / ");
}

/** @param {Service} service @returns {boolean} as activator/scale/admin/selection.py has it */
export function hasProblem({ reason, findings }) {
  return findings.length > 0 || (reason !== null && !ROWS[reason]?.quiet);
}

/** @param {Service} service @returns {[string, string]} the word of the reason, and the sentence */
export function whyText({ reason, detail, sentence, findings }) {
  if (reason !== null) return [reason, detail ?? ""];
  if (findings.length) return [findings[0].reason, findings[0].note];
  return ["", sentence ?? ""];
}

/** @param {Leader} leader @param {Summary | null} summary @returns {string} */
export function headlineText(leader, summary) {
  if (!leader.leads) return "This scaler does not lead";
  if (summary === null || !summary.services) return "No Service opts in";
  if (!summary.problems) return "Every Service is scaled as its load asks for";
  return summary.problems === 1 ? "1 Service has a problem" : `${counted(summary.problems, "Service")} have a problem`;
}

/** @param {Scaler} scaler @returns {string} who decides */
export function leaderText({ leader, notReadyReason }) {
  if (leader.leads && notReadyReason) return `This scaler leads, and waits: ${notReadyReason}.`;
  if (leader.leads) return `This scaler, ${leader.pod}, leads and decides.`;
  if (!leader.holder) return "No scaler leads. No workload is scaled until one does.";
  return `${leader.holder} leads and decides. Its own page has the Services.`;
}

/** @param {Scaler} scaler @returns {string} the command that reaches the leader; empty if there is none */
export function leaderCommand({ leader, namespace }) {
  if (leader.leads || !leader.holder) return "";
  return `kubectl -n ${namespace} port-forward pod/${leader.holder} 8081`;
}

/** @param {Activator} one @param {number} later seconds since the response @returns {string} */
export function activatorText(one, later) {
  const name = one.name || one.address || "an activator";
  if (one.lostSeconds !== null) {
    return `${name}: connection lost ${seconds(one.lostSeconds + later)} ago`;
  }
  const since = `connected for ${seconds((one.connectedSeconds ?? 0) + later)}`;
  const address = one.name && one.address ? ` (${one.address})` : "";
  if (one.lastReportSeconds === null) return `${name}${address}: ${since}, no report yet`;
  return `${name}${address}: ${since}, last report ${seconds(one.lastReportSeconds + later)} ago`;
}

/** @param {Scaler} scaler @returns {string[]} problems of the scaler itself, a sentence each */
export function problemsOf({ leader, watches, activators }) {
  const texts = [];
  if (leader.error) texts.push(`Lease: ${leader.error}`);
  /** @type {Record<string, string[]>} */
  const failing = {};
  for (const [kind, { error }] of Object.entries(watches)) {
    if (error) (failing[error] ??= []).push(kind);
  }
  for (const [error, kinds] of Object.entries(failing)) {
    texts.push(`Watch of ${kinds.join(", ")}: ${error}. No replica is removed.`);
  }
  if (leader.leads && !activators.some((one) => one.connected)) {
    texts.push("No activator is connected. No replica is removed, and no request is seen.");
  }
  return texts;
}

/**
 * Return the remedy for a reason: sentences, and commands to copy.
 * @param {string} reason
 * @param {{namespace: string, name: string}} service
 * @param {string} system namespace of the scaler
 * @returns {{text: string, command: boolean}[]}
 */
export function steps(reason, { namespace, name }, system) {
  const row = ROWS[reason];
  if (!row) return [];
  // Names of Kubernetes objects have no characters with a special meaning in a shell.
  /** @type {Record<string, string>} */
  const values = { namespace, name, system };
  const filled = row.commands.map((one) => one.replace(/\{(\w+)\}/g, (_, word) => values[word]));
  return [
    { text: row.advice, command: false },
    ...filled.map((text) => ({ text, command: true })),
  ];
}
