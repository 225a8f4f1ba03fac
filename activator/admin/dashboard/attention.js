// @ts-check
/**
 * Which revision needs attention before which. Pure.
 *
 * Waiting first, whose queue began first at the top: a new queue joins at the end of these, so
 * that nothing above it moves. Then those of which a request failed within the last minute, or the
 * next one would hang for pods that fail, then those that had any, then the idle ones; each of these by name. One that calms down stays where it
 * is for a moment (`CALM_MS`), for otherwise queues that come and go would make rows jump about.
 */

import { trouble } from "./model.js";

/** @typedef {import("./model.js").RevisionView} RevisionView */
/** @typedef {Pick<import("./history.js").Recent, "errors" | "busy">} Lately */
/** @typedef {"waiting" | "failing" | "busy" | "idle"} Level */

/** @type {Level[]} in the order of the page */
export const LEVELS = ["waiting", "failing", "busy", "idle"];

/** Milliseconds for which a revision keeps its level after the cause of it is gone. */
export const CALM_MS = 10_000;

/**
 * What is remembered of a revision; times are of one clock, in milliseconds.
 * @typedef {object} Rank
 * @property {Level} level where it stands
 * @property {Level} now where it would stand without CALM_MS
 * @property {number} since when its queue began; when it came to this level, where nobody waits
 * @property {number} place the same of its first queue at this level, by which it is sorted
 * @property {number} seen when it was last at this level
 */

/**
 * What a revision is at this moment.
 * @param {RevisionView} view
 * @param {Lately} lately the last minute: requests that are short are seldom met in flight
 * @returns {Level}
 */
export function levelOf(view, lately) {
  if (view.queued > 0) return "waiting";
  if (lately.errors > 0 || trouble(view)) return "failing";
  return view.inFlight > 0 || lately.busy ? "busy" : "idle";
}

/**
 * Where a revision stands, after what was remembered of it.
 * @param {RevisionView} view
 * @param {Lately} lately
 * @param {number} now when the view was answered
 * @param {Rank | null} before
 * @returns {Rank}
 */
export function rank(view, lately, now, before) {
  const level = levelOf(view, lately);
  const since = level === "waiting" ? now - (view.oldestWaiterSeconds ?? 0) * 1000 : now;
  if (before === null) return { level, now: level, since, place: since, seen: now };
  const calmer = LEVELS.indexOf(level) > LEVELS.indexOf(before.level);
  if (calmer && now - before.seen < CALM_MS) return { ...before, now: level };
  const goesOn = before.now === level;
  return {
    level,
    now: level,
    since: goesOn ? before.since : since,
    place: before.level === level ? before.place : since,
    seen: now,
  };
}

/**
 * Compare two for sorting: negative if the first comes first.
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
