// @ts-check
/**
 * All that the page knows, and when it was told so. Must not know how it is asked for or shown.
 *
 * What is known of a revision is never changed but replaced, so that whoever shows it sees by
 * identity whether anything is new.
 */

import { rank } from "./attention.js";
import { RATE_SECONDS, recent } from "./history.js";
import { failedAgo, keyOf } from "./model.js";

/** @typedef {import("./model.js").RevisionView} RevisionView */
/** @typedef {import("./model.js").ActivatorView} ActivatorView */
/** @typedef {import("./model.js").Happening} Happening */
/** @typedef {import("./history.js").HistoryView} HistoryView */
/** @typedef {import("./history.js").Past} Past */

/**
 * @typedef {object} Known
 * @property {string} key NAMESPACE/NAME
 * @property {RevisionView} view
 * @property {number} at when it was answered, on the clock of `performance.now`
 * @property {Past | null} past null of one in which nothing happened within the last minutes
 * @property {import("./history.js").Recent} recent
 * @property {import("./attention.js").Rank} rank
 */

/**
 * @typedef {object} Connection
 * @property {"connecting" | "live" | "late" | "lost"} state `late`: the last answer does not come
 * @property {number} since when it came to that, on the clock of `performance.now`; of the last
 *   two, when what has no answer was asked
 * @property {string} error what the last attempt met
 * @property {boolean} streaming whether events are streamed; if not, the page asks now and then
 */

/**
 * That another process answers than before: the one that did is gone, with what it held.
 * @typedef {object} Change
 * @property {string} pod whose it is
 * @property {string} before whose the other one was
 * @property {number} began when it was started, on the clock of `performance.now`
 */

/** Events that are kept: more than anybody reads, of all revisions. */
const KEPT = 500;
/** Stands among the events where some are missing, of whichever revisions. */
export const MISSED = "missed";

/**
 * Whether another process answers than before. Pure.
 * @param {ActivatorView | null} before
 * @param {number} heard when that was answered
 * @param {ActivatorView} after
 * @param {number} at when this was answered
 * @returns {Change | null}
 */
export function changeOf(before, heard, after, at) {
  const began = at - after.uptimeSeconds * 1000;
  if (before === null || (before.podName === after.podName && began <= heard)) return null;
  return { pod: after.podName, before: before.podName, began };
}

export class Store {
  /** @type {Map<string, Known>} */
  revisions = new Map();
  /** @type {ActivatorView | null} */
  activator = null;
  /** When `activator` was answered. */
  activatorAt = 0;
  /** The last one, while this page was open. @type {Change | null} */
  change = null;
  /** @type {HistoryView | null} */
  history = null;
  /** The newest first. @type {Happening[]} */
  events = [];
  /** @type {Connection} */
  connection = { state: "connecting", since: performance.now(), error: "", streaming: false };
  /** What one revision was answered that is looked at by itself; `view` is null of none such.
   * @type {{key: string, view: RevisionView | null, at: number} | null} */
  detail = null;
  /** Whether the list was answered once. */
  listed = false;
  /** Grows with each change of `revisions`. */
  version = 0;

  /** @param {() => void} changed called after each change; does its work later */
  constructor(changed) {
    this.changed = changed;
  }

  /**
   * Take an answer with revisions.
   * @param {{revisions: RevisionView[], activator: ActivatorView}} answer
   * @param {Iterable<string> | null} asked those that were asked for; null for all
   * @param {number} at when it came
   */
  take(answer, asked, at) {
    // Since when requests wait is another matter after a time of which nothing is known.
    if (this.connection.state === "lost") this.revisions.clear();
    const gone = new Set(asked ?? this.revisions.keys());
    for (const view of answer.revisions) {
      gone.delete(keyOf(view));
      this.#know(view, at);
    }
    for (const key of gone) this.revisions.delete(key);
    this.version += 1;
    this.listed ||= asked === null;
    this.takeActivator(answer.activator, at);
  }

  /** Take how the activator itself is. @param {ActivatorView} activator @param {number} at */
  takeActivator(activator, at) {
    this.change = changeOf(this.activator, this.activatorAt, activator, at) ?? this.change;
    this.activator = activator;
    this.activatorAt = at;
    this.changed();
  }

  /**
   * Take what the revision is that is looked at by itself.
   * @param {string} key
   * @param {RevisionView | null} view null if there is none
   * @param {number} at when the answer came
   */
  takeDetail(key, view, at) {
    this.detail = { key, view, at };
    if (view === null) this.revisions.delete(key);
    else this.#know(view, at);
    this.version += 1;
    this.changed();
  }

  /** @param {RevisionView} view @param {number} at */
  #know(view, at) {
    const key = keyOf(view);
    const before = this.revisions.get(key);
    const past = before ? before.past : (this.#pasts.get(key) ?? null);
    const told = lately(past, this.history, { view, at }, at);
    const where = rank(view, told, at, before?.rank ?? null);
    this.revisions.set(key, { key, view, at, past, recent: told, rank: where });
  }

  /** @type {Map<string, Past>} */
  #pasts = new Map();

  /** Take the last minutes. @param {HistoryView} history @param {number} at */
  takeHistory(history, at) {
    this.history = history;
    this.#pasts = new Map(history.revisions.map((one) => [keyOf(one), one]));
    for (const [key, known] of this.revisions) {
      const past = this.#pasts.get(key) ?? null;
      if (past === null && known.past === null && !known.recent.errors) continue;
      const told = lately(past, history, known, at);
      const where = rank(known.view, told, at, known.rank);
      this.revisions.set(key, { ...known, past, recent: told, rank: where });
    }
    this.version += 1;
    this.changed();
  }

  /** Take something that happened. @param {Happening} told */
  happened(told) {
    this.events.unshift(told);
    if (this.events.length > KEPT) this.events.length = KEPT;
    this.changed();
  }

  /** Take that events were lost. @param {Date} now */
  missed(now) {
    this.happened({ kind: MISSED, time: now.toISOString(), revision: "" });
  }

  /**
   * Take how the connection is.
   * @param {Partial<Connection>} news
   * @param {number} at
   */
  connected(news, at) {
    const { connection } = this;
    const same = (news.state ?? connection.state) === connection.state;
    this.connection = { ...connection, ...news, since: same ? connection.since : at };
    this.changed();
  }
}

/**
 * What happened within the last minute. That a request failed is known before its step is over.
 * @param {Past | null} past
 * @param {HistoryView | null} history
 * @param {{view: RevisionView, at: number}} known
 * @param {number} now
 */
function lately(past, history, known, now) {
  const told = recent(past, history?.stepSeconds ?? 1);
  const failed = !told.errors && failedAgo(known, now) < RATE_SECONDS;
  return failed ? { ...told, errors: 1 } : told;
}
