// @ts-check
/**
 * The data of the page, with the time of each response.
 *
 * The record of a revision is replaced and never changed. So a view detects a change by identity.
 */

import { rank } from "./attention.js";
import { RATE_SECONDS, recent } from "./history.js";
import { failedAgo, keyOf } from "./model.js";

/** @typedef {import("./model.js").RevisionView} RevisionView */
/** @typedef {import("./model.js").ActivatorView} ActivatorView */
/** @typedef {import("./model.js").ActivatorEvent} ActivatorEvent */
/** @typedef {import("./history.js").HistoryView} HistoryView */
/** @typedef {import("./history.js").Past} Past */

/**
 * @typedef {object} Known
 * @property {string} key NAMESPACE/NAME
 * @property {RevisionView} view
 * @property {number} at when it was received, on the clock of `performance.now`
 * @property {Past | null} past null for a revision without requests in the last minutes
 * @property {import("./history.js").Recent} recent
 * @property {import("./attention.js").Rank} rank
 */

/**
 * @typedef {object} Connection
 * @property {"connecting" | "live" | "late" | "lost"} state `late`: a response is missing
 * @property {number} since when this state began, on the clock of `performance.now`; for `late` and
 *   `lost`, the time of the request without a response
 * @property {string} error the error of the last attempt
 * @property {boolean} streaming whether the event stream is open; otherwise the page polls
 */

/**
 * A change of the responding process: a restart, or another activator.
 * @typedef {object} Change
 * @property {string} pod the name of the new pod
 * @property {string} before the name of the old pod
 * @property {number} began when the new process started, on the clock of `performance.now`
 */

/** Most events that are stored, of all revisions. */
const KEPT = 500;
/** The kind of an entry that marks missing events. */
export const MISSED = "missed";

/**
 * Return the change of the responding process, if any. Pure.
 * @param {ActivatorView | null} before
 * @param {number} heard when that state was received
 * @param {ActivatorView} after
 * @param {number} at when this state was received
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
  /** When `activator` was received. */
  activatorAt = 0;
  /** The last change since the page was opened. @type {Change | null} */
  change = null;
  /** @type {HistoryView | null} */
  history = null;
  /** Events, the newest first. @type {ActivatorEvent[]} */
  events = [];
  /** @type {Connection} */
  connection = { state: "connecting", since: performance.now(), error: "", streaming: false };
  /** The document of the selected revision; `view` is null if it does not exist.
   * @type {{key: string, view: RevisionView | null, at: number} | null} */
  detail = null;
  /** Whether the list of revisions was received once. */
  listed = false;
  /** Number of changes of `revisions`. */
  version = 0;

  /** @param {() => void} changed called after each change; must return at once */
  constructor(changed) {
    this.changed = changed;
  }

  /**
   * Store a response with revisions.
   * @param {{revisions: RevisionView[], activator: ActivatorView}} response
   * @param {Iterable<string> | null} asked the requested revisions; null for all
   * @param {number} at when it was received
   */
  take(response, asked, at) {
    // After a lost connection, the start of each queue is unknown.
    if (this.connection.state === "lost") this.revisions.clear();
    const gone = new Set(asked ?? this.revisions.keys());
    for (const view of response.revisions) {
      gone.delete(keyOf(view));
      this.#update(view, at);
    }
    for (const key of gone) this.revisions.delete(key);
    this.version += 1;
    this.listed ||= asked === null;
    this.takeActivator(response.activator, at);
  }

  /** Store the state of the activator itself. @param {ActivatorView} activator @param {number} at */
  takeActivator(activator, at) {
    this.change = changeOf(this.activator, this.activatorAt, activator, at) ?? this.change;
    this.activator = activator;
    this.activatorAt = at;
    this.changed();
  }

  /**
   * Store the document of the selected revision.
   * @param {string} key
   * @param {RevisionView | null} view null if it does not exist
   * @param {number} at when it was received
   */
  takeDetail(key, view, at) {
    this.detail = { key, view, at };
    if (view === null) this.revisions.delete(key);
    else this.#update(view, at);
    this.version += 1;
    this.changed();
  }

  /** @param {RevisionView} view @param {number} at */
  #update(view, at) {
    const key = keyOf(view);
    const before = this.revisions.get(key);
    const past = before ? before.past : (this.#pasts.get(key) ?? null);
    const minute = recentOf(past, this.history, { view, at }, at);
    const where = rank(view, minute, at, before?.rank ?? null);
    this.revisions.set(key, { key, view, at, past, recent: minute, rank: where });
  }

  /** @type {Map<string, Past>} */
  #pasts = new Map();

  /** Store the history. @param {HistoryView} history @param {number} at */
  takeHistory(history, at) {
    this.history = history;
    this.#pasts = new Map(history.revisions.map((one) => [keyOf(one), one]));
    for (const [key, known] of this.revisions) {
      const past = this.#pasts.get(key) ?? null;
      if (past === null && known.past === null && !known.recent.errors) continue;
      const minute = recentOf(past, history, known, at);
      const where = rank(known.view, minute, at, known.rank);
      this.revisions.set(key, { ...known, past, recent: minute, rank: where });
    }
    this.version += 1;
    this.changed();
  }

  /** Store an event. @param {ActivatorEvent} event */
  happened(event) {
    this.events.unshift(event);
    if (this.events.length > KEPT) this.events.length = KEPT;
    this.changed();
  }

  /** Record that events were lost. @param {Date} now */
  missed(now) {
    this.happened({ kind: MISSED, time: now.toISOString(), revision: "" });
  }

  /**
   * Store the state of the connection.
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
 * Return the sums of the last minute, including a failure in the present step.
 * @param {Past | null} past
 * @param {HistoryView | null} history
 * @param {{view: RevisionView, at: number}} known
 * @param {number} now
 */
function recentOf(past, history, known, now) {
  const minute = recent(past, history?.stepSeconds ?? 1);
  const failed = !minute.errors && failedAgo(known, now) < RATE_SECONDS;
  return failed ? { ...minute, errors: 1 } : minute;
}
