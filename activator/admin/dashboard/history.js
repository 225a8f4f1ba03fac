// @ts-check
/** The history of the last minutes in steps, with sums and rates. Pure. */

import { keyOf } from "./model.js";

/**
 * The history of one revision, or of all together: lists of equal length, the oldest step first.
 * `queued` and `inFlight` are maxima of each step; `outcomes` counts ended requests by outcome.
 * @typedef {object} Past
 * @property {number[]} queued
 * @property {number[]} inFlight
 * @property {Record<string, number[]>} outcomes
 */

/**
 * @typedef {object} HistoryView
 * @property {number} stepSeconds
 * @property {number} steps
 * @property {string} time when the last step ended
 * @property {({namespace: string, name: string, kind?: string} & Past)[]} revisions
 * @property {Past} activator
 */

/** Seconds over which rates are averaged. */
export const RATE_SECONDS = 60;

/** Outcomes of requests that got a pod. */
const SERVED = ["served", "admitted"];

/** Outcomes that are no errors. */
const NO_ERRORS = [...SERVED, "cancelled"];

/**
 * The last minute of a revision.
 * @typedef {object} Recent
 * @property {number} servedPerSecond with admitted ones
 * @property {number} errors the number of requests that ended neither served, admitted nor cancelled
 * @property {boolean} busy whether there was any request
 * @property {[string, number][]} ends requests by outcome, without SERVED; the most frequent first
 */

/**
 * @param {Past | null | undefined} past null for a revision without requests
 * @param {number} stepSeconds
 * @returns {Recent}
 */
export function recent(past, stepSeconds) {
  const steps = Math.max(1, Math.round(RATE_SECONDS / stepSeconds));
  /** @type {[string, number][]} */
  const sums = Object.entries(past?.outcomes ?? {}).map(([end, all]) => [
    end,
    sum(all.slice(-steps)),
  ]);
  const ended = new Map(sums.filter(([, n]) => n > 0));
  const known = Math.min(steps, past?.queued.length ?? 0) || 1;
  const happened = (/** @type {number[] | undefined} */ all) => sum((all ?? []).slice(-steps)) > 0;
  const bad = [...ended].filter(([end]) => !NO_ERRORS.includes(end));
  return {
    servedPerSecond: sum(SERVED.map((end) => ended.get(end) ?? 0)) / (known * stepSeconds),
    errors: sum(bad.map(([, n]) => n)),
    busy: ended.size > 0 || [past?.queued, past?.inFlight].some(happened),
    ends: [...ended].filter(([end]) => !SERVED.includes(end)).sort((a, b) => b[1] - a[1]),
  };
}

/**
 * Return the length of the history in seconds; it is short after a start.
 * @param {HistoryView} history
 */
export function reachOf({ activator, stepSeconds }) {
  return activator.queued.length * stepSeconds;
}

/**
 * @param {number[]} values @returns {{most: number, at: number}} the greatest value, and its last index
 */
export function peak(values) {
  let most = 0;
  let at = -1;
  values.forEach((value, place) => {
    if (value > 0 && value >= most) [most, at] = [value, place];
  });
  return { most, at };
}

/** @param {number[]} values */
export function sum(values) {
  return values.reduce((all, value) => all + value, 0);
}

/**
 * Return whether the last step had requests: then the revision is busy, even if no event reported it.
 * @param {Past} past
 */
export function isBusyInLastStep(past) {
  return (past.inFlight.at(-1) ?? 0) > 0 || (past.queued.at(-1) ?? 0) > 0;
}

/**
 * Return the history, extended by newer steps. Repeated steps get the newer value.
 * @param {HistoryView} old
 * @param {HistoryView} news the newest steps only, so its lists are shorter
 * @returns {HistoryView | null} null if steps between the two are missing: request the whole history
 */
export function extended(old, news) {
  const added = news.activator.queued.length;
  const passed = Math.round(
    (Date.parse(news.time) - Date.parse(old.time)) / (news.stepSeconds * 1000),
  );
  const kept = old.activator.queued.length - (added - passed);
  if (!(passed >= 0 && passed <= added && kept >= 0)) return null;
  const size = { kept, added, steps: news.steps };
  const before = new Map(old.revisions.map((one) => [keyOf(one), one]));
  const after = new Map(news.revisions.map((one) => [keyOf(one), one]));
  const all = new Map([...before, ...after]);
  const revisions = [...all].map(([key, { namespace, name, kind }]) => {
    return { namespace, name, kind, ...joined(before.get(key), after.get(key), size) };
  });
  return {
    ...news,
    revisions: revisions.filter(happens),
    activator: joined(old.activator, news.activator, size),
  };
}

/**
 * @param {Past | undefined} old
 * @param {Past | undefined} news
 * @param {{kept: number, added: number, steps: number}} size the steps of each, and the maximum
 * @returns {Past}
 */
function joined(old, news, { kept, added, steps }) {
  /** @param {number[] | undefined} a @param {number[] | undefined} b */
  const join = (a, b) =>
    [...(a ?? zeros(kept)).slice(0, kept), ...(b ?? zeros(added))].slice(-steps);
  const ends = new Set([...Object.keys(old?.outcomes ?? {}), ...Object.keys(news?.outcomes ?? {})]);
  const outcomes = [...ends].map((end) => [end, join(old?.outcomes[end], news?.outcomes[end])]);
  return {
    queued: join(old?.queued, news?.queued),
    inFlight: join(old?.inFlight, news?.inFlight),
    outcomes: Object.fromEntries(outcomes),
  };
}

/** @param {number} n @returns {number[]} */
function zeros(n) {
  return new Array(n).fill(0);
}

/** @param {Past} past */
function happens({ queued, inFlight, outcomes }) {
  return [queued, inFlight, ...Object.values(outcomes)].some((all) => all.some((n) => n > 0));
}
