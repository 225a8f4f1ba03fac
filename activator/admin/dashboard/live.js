// @ts-check
/**
 * Keeps the store up to date: listens to the stream of events, and asks for what they are about.
 *
 * The stream says which revisions change, not how many requests each has at pods; so those it has
 * named, and those that are not idle, are asked for again, in turns. All are asked for now and
 * then, and whenever events were lost. A turn that fails is a lost connection, and the next comes
 * later and later. While the page cannot be seen there are no turns.
 */

import { answerOf, wordsOf } from "./api.js";
import { busyAtLast, movedOn } from "./history.js";
import { keyOf } from "./model.js";
import { Stream } from "./stream.js";

/** @typedef {import("./store.js").Store} Store */

/** Milliseconds from one turn to the next. */
const TURN = 1000;
/** From the beginning of a turn to that of the next, if there was an event. */
const SOON = 300;
/** From one question for all revisions to the next: what no event tells. Without a stream, less. */
const WHOLE = 30_000;
const WHOLE_WITHOUT_STREAM = 5_000;
/** All revisions cost the activator more than a few: no more than this share of its time. */
const SHARE = 0.1;
/** From one question for the last minutes to the next; the activator's own step. */
const HISTORY = 5000;
/** The oldest that is shown of the activator itself, of which no event tells. */
const WHO = 5000;
/** From one question for the revision that is looked at to the next, while nothing happens. */
const DETAIL = 3000;
/** The longest time between two attempts to reach an activator that is away. */
const LONGEST_PAUSE = 10_000;
/** A turn without an answer for so long is said, before it is given up. */
const LATE = 2000;
/** Revisions that are asked for by name; of more, all are. */
const MOST_NAMED = 40;
/** For how long the first word of the stream is waited for. */
const HELLO = 1000;

export class Live {
  /** Revisions that an event was about since they were asked for. @type {Set<string>} */
  #touched = new Set();
  /** The revision that is looked at by itself. @type {string | null} */
  #looked = null;
  /** When each was last asked for; none yet. */
  #asked = { turn: -Infinity, whole: -Infinity, history: -Infinity, detail: -Infinity };
  /** When the last minutes came; all of them are asked for where that is unknown. */
  #historyAt = -Infinity;
  /** How long all revisions took to come. */
  #wholeTook = 0;
  #failures = 0;
  #running = false;
  /** Whether a turn was wanted while one was under way. */
  #again = false;
  /** When the next turn comes. */
  #due = 0;
  /** @type {number | undefined} */
  #timer;
  #started = false;
  #stream = new Stream({
    hello: () => this.#everything(true),
    missed: () => {
      this.store.missed(new Date());
      this.#everything(true);
    },
    told: (event) => this.#told(event),
    broken: () => this.#everything(false), // asks at once whether the activator is there at all
  });

  /** @param {Store} store */
  constructor(store) {
    this.store = store;
  }

  /** Begin. */
  start() {
    this.#stream.open();
    document.addEventListener("visibilitychange", () => {
      this.#stream.seen(!document.hidden);
      this.#asked.whole = -Infinity;
      this.#plan(0);
    });
    this.#started = true;
    this.#plan(HELLO); // the stream's first word comes earlier, and then is the time to ask
  }

  /** Look at one revision by itself, or at none. @param {string | null} key */
  look(key) {
    if (key === this.#looked) return;
    this.#looked = key;
    this.#asked.detail = -Infinity;
    if (key !== null && this.#started) this.#plan(0);
  }

  // -- the stream ---------------------------------------------------------------------------------

  /** Take an event. @param {import("./model.js").Happening} event */
  #told(event) {
    this.store.happened(event);
    this.#touched.add(event.revision);
    this.#plan(this.#asked.turn + SOON - performance.now());
  }

  /** Ask for everything anew. @param {boolean} streaming */
  #everything(streaming) {
    const was = this.store.connection.streaming;
    this.store.connected({ streaming }, performance.now());
    if (!streaming && !was) return; // the attempts of the browser; ours go on by themselves
    this.#asked.whole = this.#asked.history = this.#historyAt = -Infinity;
    this.#plan(0);
  }

  // -- turns --------------------------------------------------------------------------------------

  /** Let the next turn come after so many milliseconds, or earlier. @param {number} ms */
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
    if (this.#running || document.hidden) return; // it plans the next itself; or visibilitychange
    this.#running = true;
    const began = (this.#asked.turn = performance.now());
    const late = setTimeout(() => this.store.connected({ state: "late" }, began), LATE);
    try {
      if (await this.#ask()) {
        this.#failures = 0;
        this.store.connected({ state: "live", error: "" }, performance.now());
      }
    } catch (error) {
      this.#failures += 1;
      this.#asked.whole = this.#asked.history = this.#asked.detail = -Infinity;
      this.#historyAt = -Infinity; // it may have been started anew
      this.store.connected({ state: "lost", error: wordsOf(error) }, began);
    }
    clearTimeout(late);
    this.#running = false;
    const pause = Math.min(LONGEST_PAUSE, TURN * 2 ** Math.max(0, this.#failures - 1));
    const soon = (this.#again || this.#touched.size) && !this.#failures;
    this.#plan(this.#asked.turn + (soon ? SOON : pause) - performance.now());
  }

  /** Ask for what is due. @returns {Promise<boolean>} whether anything was */
  async #ask() {
    const revisions = this.#askRevisions(); // whose answer says how the activator is as well
    const activator = revisions ? null : this.#askActivator();
    const due = [this.#askDetail(), revisions, activator, this.#askHistory()].filter(Boolean);
    await Promise.all(due);
    return due.length > 0;
  }

  #askDetail() {
    const key = this.#looked;
    if (key === null) return null;
    const now = performance.now();
    const known = this.store.revisions.get(key);
    const missing = this.store.detail?.key === key && this.store.detail.view === null;
    if (missing && !known) return null; // until it is among the others
    const moves = this.#touched.has(key) || (known !== undefined && !settled(known));
    if (!moves && now - this.#asked.detail < DETAIL) return null;
    this.#asked.detail = now;
    return this.#detail(key);
  }

  /** @param {string} key */
  async #detail(key) {
    const [namespace, name] = key.split("/").map(encodeURIComponent);
    const view = await answerOf(`api/v1/revisions/${namespace}/${name}`);
    if (key === this.#looked) this.store.takeDetail(key, view, performance.now());
  }

  #askRevisions() {
    const now = performance.now();
    const moving = [...this.store.revisions].filter(([, known]) => !settled(known));
    const named = new Set([...this.#touched, ...moving.map(([key]) => key)]);
    const pause = Math.max(TURN, this.#wholeTook / SHARE);
    const often = named.size > MOST_NAMED ? 0 : this.#pauseOfWhole();
    if (now - this.#asked.whole >= Math.max(pause, often)) {
      this.#touched.clear();
      return this.#whole();
    }
    if (!named.size || named.size > MOST_NAMED) return null;
    this.#touched.clear();
    return this.#named(named);
  }

  #pauseOfWhole() {
    return this.store.connection.streaming ? WHOLE : WHOLE_WITHOUT_STREAM;
  }

  async #whole() {
    const began = (this.#asked.whole = performance.now());
    const answer = await answerOf("api/v1/revisions");
    const now = performance.now();
    this.#wholeTook = now - began;
    this.store.take(answer, null, now);
  }

  /** @param {Set<string>} keys */
  async #named(keys) {
    const asked = new URLSearchParams([...keys].map((key) => ["revision", key]));
    const answer = await answerOf(`api/v1/revisions?${asked}`);
    this.store.take(answer, keys, performance.now());
  }

  #askActivator() {
    return performance.now() - this.store.activatorAt < WHO ? null : this.#activator();
  }

  async #activator() {
    const answer = await answerOf("api/v1/activator");
    if (answer !== null) this.store.takeActivator(answer, performance.now());
  }

  #askHistory() {
    const now = performance.now();
    if (now - this.#asked.history < HISTORY) return null;
    this.#asked.history = now;
    return this.#history();
  }

  async #history() {
    const old = this.store.history;
    const passed = (performance.now() - this.#historyAt) / 1000;
    // One more than have passed, since the clocks' steps do not begin at the same time.
    const steps = old === null ? Infinity : Math.ceil(passed / old.stepSeconds) + 1;
    const some = old !== null && steps < old.activator.queued.length;
    const news = await answerOf(`api/v1/history${some ? `?steps=${steps}` : ""}`);
    if (news === null) return; // an activator that keeps none
    const history = some ? movedOn(old, news) : news;
    if (history === null) {
      this.#historyAt = -Infinity; // what is missing is asked for with all the rest, next time
      return;
    }
    this.#historyAt = performance.now();
    this.store.takeHistory(history, this.#historyAt);
    for (const one of news.revisions) {
      if (busyAtLast(one)) this.#touched.add(keyOf(one));
    }
  }
}

/**
 * Whether nothing of a revision changes without an event.
 * @param {import("./store.js").Known} known
 */
function settled({ view, rank }) {
  return view.queued === 0 && view.inFlight === 0 && rank.level === rank.now;
}
