// @ts-check
/**
 * The order of revisions on the overview. Pure.
 *
 * Revisions with queued requests come first, by the start of their queue. So a new queue joins at
 * the end, and no row above it moves. Then come failing revisions: a request failed within the last
 * minute, or the next one would wait for failing pods. Then busy and idle revisions. These three are
 * sorted by name. A revision keeps its level for `CALM_MS` after the cause is gone, so that
 * short queues do not make rows jump.
 */

import { trouble } from "./model.js";

/** @typedef {import("./model.js").RevisionView} RevisionView */
/** @typedef {Pick<import("./history.js").Recent, "errors" | "busy">} Recently */
/** @typedef {"waiting" | "failing" | "busy" | "idle"} Level */

/** @type {Level[]} the levels in the order of the page */
export const LEVELS = ["waiting", "failing", "busy", "idle"];

/** Milliseconds for which a revision keeps its level after the cause is gone. */
export const CALM_MS = 10_000;

/**
 * The place of a revision in the order; times are of one clock, in milliseconds.
 * @typedef {object} Rank
 * @property {Level} level its level on the page
 * @property {Level} now its level without CALM_MS
 * @property {number} since when its queue began; without a queue, when it reached this level
 * @property {number} place `since` of its first queue at this level; the sort key
 * @property {number} seen when it was last at this level
 */

/**
 * Return the level of a revision at this moment.
 * @param {RevisionView} view
 * @param {Recently} recently the last minute, because short requests are seldom seen in flight
 * @returns {Level}
 */
export function levelOf(view, recently) {
  if (view.queued > 0) return "waiting";
  if (recently.errors > 0 || view.failedStarts || trouble(view)) return "failing";
  return view.inFlight > 0 || recently.busy ? "busy" : "idle";
}

/**
 * Return the new place of a revision.
 * @param {RevisionView} view
 * @param {Recently} recently
 * @param {number} now when the view was received
 * @param {Rank | null} before its place before; null for a new revision
 * @returns {Rank}
 */
export function rank(view, recently, now, before) {
  const level = levelOf(view, recently);
  const since = level === "waiting" ? now - (view.oldestWaiterSeconds ?? 0) * 1000 : now;
  if (before === null) return { level, now: level, since, place: since, seen: now };
  const calmer = LEVELS.indexOf(level) > LEVELS.indexOf(before.level);
  if (calmer && now - before.seen < CALM_MS) return { ...before, now: level };
  const continues = before.now === level;
  return {
    level,
    now: level,
    since: continues ? before.since : since,
    place: before.level === level ? before.place : since,
    seen: now,
  };
}

/**
 * Compare two revisions for sorting: negative if the first comes first.
 * @param {{key: string, rank: Rank}} a `key` is NAMESPACE/NAME
 * @param {{key: string, rank: Rank}} b
 */
export function compare(a, b) {
  if (a.rank.level !== b.rank.level) {
    return LEVELS.indexOf(a.rank.level) - LEVELS.indexOf(b.rank.level);
  }
  if (a.rank.level === "waiting" && a.rank.place !== b.rank.place) {
    return a.rank.place - b.rank.place;
  }
  return a.key < b.key ? -1 : Number(a.key > b.key);
}
