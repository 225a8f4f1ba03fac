// @ts-check
/**
 * Keeps the store up to date: reads the event stream, and polls the API.
 *
 * An event names a revision that changed, without its requests in flight. So each turn gets the
 * changed revisions and those that are not idle. The page gets all revisions from time to time, and
 * after lost events. A failed turn means a lost connection; pauses then grow. A hidden page has no
 * turns.
 */

import { getJson, describeError } from "./api.js";
import { isBusyInLastStep, extended } from "./history.js";
import { keyOf, keyOfNames, partsOf } from "./model.js";
import { Stream } from "./stream.js";

/** @typedef {import("./store.js").Store} Store */

/** Milliseconds from one turn to the next. */
const TURN = 1000;
/** Milliseconds from the start of a turn to the next, after an event. */
const SOON = 300;
/** Milliseconds between two requests for all revisions, with and without an event stream. */
const WHOLE = 30_000;
const WHOLE_WITHOUT_STREAM = 5_000;
/** The most of the activator's time that requests for all revisions may take, as a share. */
const SHARE = 0.1;
/** Milliseconds between two requests for the history: the activator's own step. */
const HISTORY = 5000;
/** Most milliseconds of age of the activator's own state, which has no events. */
const ACTIVATOR_AGE = 5000;
/** Milliseconds between two requests for the selected revision, while it is idle. */
const DETAIL = 3000;
/** The longest pause between two attempts while the connection is lost. */
const MAX_PAUSE = 10_000;
/** Milliseconds after which the page reports a missing response, before the time-out. */
const LATE = 2000;
/** Most revisions that are requested by name; above it, the page requests all. */
const MAX_NAMED = 40;
/** Milliseconds to wait for the stream's first event. */
const HELLO = 1000;

export class Live {
  /** Revisions with an event since their last request. @type {Set<string>} */
  #changedRevisions = new Set();
  /** The revision whose page is open. @type {string | null} */
  #selected = null;
  /** The time of the last request of each kind. */
  #requestedAt = { turn: -Infinity, whole: -Infinity, history: -Infinity, detail: -Infinity };
  /** When the history was received; -Infinity requests all of it. */
  #historyAt = -Infinity;
  /** Duration of the last request for all revisions. */
  #wholeTook = 0;
  #failures = 0;
  #running = false;
  /** Whether another turn was due during a turn. */
  #again = false;
  /** When the next turn is due. */
  #due = 0;
  /** @type {number | undefined} */
  #timer;
  #started = false;
  #stream = new Stream({
    hello: () => this.#refreshAll(true),
    missed: () => {
      this.store.missed(new Date());
      this.#refreshAll(true);
    },
    event: (event) => this.#onEvent(event),
    broken: () => this.#refreshAll(false), // checks at once whether the activator responds
  });

  /** @param {Store} store */
  constructor(store) {
    this.store = store;
  }

  /** Open the stream, and plan the first turn. */
  start() {
    this.#stream.open();
    document.addEventListener("visibilitychange", () => {
      this.#stream.seen(!document.hidden);
      this.#requestedAt.whole = -Infinity;
      this.#plan(0);
    });
    this.#started = true;
    this.#plan(HELLO); // the stream's first event usually starts a turn earlier
  }

  /** Select the revision whose page is open; null for none. @param {string | null} key */
  look(key) {
    if (key === this.#selected) return;
    this.#selected = key;
    this.#requestedAt.detail = -Infinity;
    if (key !== null && this.#started) this.#plan(0);
  }

  // -- the stream ---------------------------------------------------------------------------------

  /** Store an event, and plan a turn soon. @param {import("./model.js").ActivatorEvent} event */
  #onEvent(event) {
    this.store.happened(event);
    this.#changedRevisions.add(keyOfNames(event.revisionKind, event.revision));
    this.#plan(this.#requestedAt.turn + SOON - performance.now());
  }

  /** Request everything again. @param {boolean} streaming */
  #refreshAll(streaming) {
    const was = this.store.connection.streaming;
    this.store.connected({ streaming }, performance.now());
    if (!streaming && !was) return; // an attempt of the browser; the page's own turns continue
    this.#requestedAt.whole = this.#requestedAt.history = this.#historyAt = -Infinity;
    this.#plan(0);
  }

  // -- turns --------------------------------------------------------------------------------------

  /** Plan the next turn in at most so many milliseconds. @param {number} ms */
  #plan(ms) {
    const due = performance.now() + Math.max(0, ms);
    if (this.#timer !== undefined && this.#due <= due) return;
    clearTimeout(this.#timer);
    this.#due = due;
    this.#timer = setTimeout(() => this.#turn(), Math.max(0, ms));
  }

  async #turn() {
    this.#timer = undefined;
    this.#again = this.#running;
    if (this.#running || document.hidden) return; // the running turn, or visibilitychange, plans the next one
    this.#running = true;
    const began = (this.#requestedAt.turn = performance.now());
    const late = setTimeout(() => this.store.connected({ state: "late" }, began), LATE);
    try {
      if (await this.#refresh()) {
        this.#failures = 0;
        this.store.connected({ state: "live", error: "" }, performance.now());
      }
    } catch (error) {
      this.#failures += 1;
      this.#requestedAt.whole = this.#requestedAt.history = this.#requestedAt.detail = -Infinity;
      this.#historyAt = -Infinity; // the activator may have restarted
      this.store.connected({ state: "lost", error: describeError(error) }, began);
    }
    clearTimeout(late);
    this.#running = false;
    const pause = Math.min(MAX_PAUSE, TURN * 2 ** Math.max(0, this.#failures - 1));
    const soon = (this.#again || this.#changedRevisions.size) && !this.#failures;
    this.#plan(this.#requestedAt.turn + (soon ? SOON : pause) - performance.now());
  }

  /** Request everything that is due. @returns {Promise<boolean>} whether anything was due */
  async #refresh() {
    const revisions = this.#refreshRevisions(); // its response has the activator's state, too
    const activator = revisions ? null : this.#refreshActivator();
    const due = [this.#refreshDetail(), revisions, activator, this.#refreshHistory()].filter(Boolean);
    await Promise.all(due);
    return due.length > 0;
  }

  #refreshDetail() {
    const key = this.#selected;
    if (key === null) return null;
    const now = performance.now();
    const known = this.store.revisions.get(key);
    const missing = this.store.detail?.key === key && this.store.detail.view === null;
    if (missing && !known) return null; // wait until the list has it
    const moves = this.#changedRevisions.has(key) || (known !== undefined && !settled(known));
    if (!moves && now - this.#requestedAt.detail < DETAIL) return null;
    this.#requestedAt.detail = now;
    return this.#loadDetail(key);
  }

  /** @param {string} key */
  async #loadDetail(key) {
    const { kind, names } = partsOf(key);
    const path = names.split("/").map(encodeURIComponent).join("/");
    const view = await getJson(`api/v1/revisions/${path}?kind=${kind}`);
    if (key === this.#selected) this.store.takeDetail(key, view, performance.now());
  }

  #refreshRevisions() {
    const now = performance.now();
    const moving = [...this.store.revisions].filter(([, known]) => !settled(known));
    const named = new Set([...this.#changedRevisions, ...moving.map(([key]) => key)]);
    const pause = Math.max(TURN, this.#wholeTook / SHARE);
    const often = named.size > MAX_NAMED ? 0 : this.#pauseOfWhole();
    if (now - this.#requestedAt.whole >= Math.max(pause, often)) {
      this.#changedRevisions.clear();
      return this.#loadAll();
    }
    if (!named.size || named.size > MAX_NAMED) return null;
    this.#changedRevisions.clear();
    return this.#loadNamed(named);
  }

  #pauseOfWhole() {
    return this.store.connection.streaming ? WHOLE : WHOLE_WITHOUT_STREAM;
  }

  async #loadAll() {
    const began = (this.#requestedAt.whole = performance.now());
    const response = await getJson("api/v1/revisions");
    const now = performance.now();
    this.#wholeTook = now - began;
    this.store.take(response, null, now);
  }

  /** @param {Set<string>} keys */
  async #loadNamed(keys) {
    const asked = new URLSearchParams([...keys].map((key) => ["revision", partsOf(key).names]));
    const response = await getJson(`api/v1/revisions?${asked}`);
    this.store.take(response, keys, performance.now());
  }

  #refreshActivator() {
    return performance.now() - this.store.activatorAt < ACTIVATOR_AGE ? null : this.#loadActivator();
  }

  async #loadActivator() {
    const response = await getJson("api/v1/activator");
    if (response !== null) this.store.takeActivator(response, performance.now());
  }

  #refreshHistory() {
    const now = performance.now();
    if (now - this.#requestedAt.history < HISTORY) return null;
    this.#requestedAt.history = now;
    return this.#loadHistory();
  }

  async #loadHistory() {
    const old = this.store.history;
    const passed = (performance.now() - this.#historyAt) / 1000;
    // One step more than have passed, because the two clocks' steps begin at different times.
    const steps = old === null ? Infinity : Math.ceil(passed / old.stepSeconds) + 1;
    const some = old !== null && steps < old.activator.queued.length;
    const news = await getJson(`api/v1/history${some ? `?steps=${steps}` : ""}`);
    if (news === null) return; // this activator has no history
    const history = some ? extended(old, news) : news;
    if (history === null) {
      this.#historyAt = -Infinity; // the next request gets the whole history
      return;
    }
    this.#historyAt = performance.now();
    this.store.takeHistory(history, this.#historyAt);
    for (const one of news.revisions) {
      if (isBusyInLastStep(one)) this.#changedRevisions.add(keyOf(one));
    }
  }
}

/**
 * Return whether a revision is idle, so that each change has an event.
 * @param {import("./store.js").Known} known
 */
function settled({ view, rank }) {
  return view.queued === 0 && view.inFlight === 0 && rank.level === rank.now;
}
