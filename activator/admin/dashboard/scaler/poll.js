// @ts-check
/** Polls the API for what the page shows, and keeps the last response of each kind with its time. */

import { describeError, getJson } from "../api.js";
import { servicePath, tablePath } from "./route.js";

/** @typedef {import("./route.js").Route} Route */
/** @typedef {import("./words.js").Scaler} Scaler */
/** @typedef {import("./words.js").Service} Service */
/** @typedef {{services: Service[], matching: number, summary: import("./words.js").Summary}} Table */

/** Milliseconds from the start of a turn to the next. */
const TURN = 1500;
/** The most of the time that requests may take, as a share: a busy scaler must scale. */
const SHARE = 0.2;
/** The longest pause between two attempts while the connection is lost. */
const MAX_PAUSE = 10_000;
/** Milliseconds after which the page reports a missing response, before the time-out. */
const LATE = 2000;

export class Poll {
  /** @type {Scaler | null} */
  scaler = null;
  /** @type {Table | null} */
  table = null;
  /** The address of the table. @type {Route | null} */
  shown = null;
  /** The Service of the page; null for an unknown one. @type {{key: string, view: Service | null} | null} */
  service = null;
  /** When the last response came. */
  at = 0;
  /** @type {import("../connection.js").Connection} */
  connection = { state: "connecting", error: "", since: performance.now(), streaming: true };
  #failures = 0;
  /** Counts turns: only the last one may change the page. */
  #turns = 0;
  /** @type {number | undefined} */
  #timer;

  /** @param {() => Route} route the page's address @param {() => void} changed */
  constructor(route, changed) {
    this.route = route;
    this.changed = changed;
    document.addEventListener("visibilitychange", () => this.now());
  }

  /** Begin a turn at once. */
  now() {
    clearTimeout(this.#timer);
    if (!document.hidden) void this.#turn();
  }

  async #turn() {
    const turn = ++this.#turns;
    const began = performance.now();
    const late = setTimeout(() => this.#connected("late", "", began, turn), LATE);
    try {
      await this.#refresh(turn);
      if (turn === this.#turns) this.#failures = 0;
      this.#connected("live", "", performance.now(), turn);
    } catch (error) {
      if (turn === this.#turns) this.#failures += 1;
      this.#connected("lost", describeError(error), began, turn);
    }
    clearTimeout(late);
    if (turn !== this.#turns) return; // a newer turn plans the next one
    const took = performance.now() - began;
    const pause = Math.min(MAX_PAUSE, TURN * 2 ** Math.max(0, this.#failures - 1));
    const wait = this.#failures ? pause - took : Math.max(pause - took, took / SHARE - took);
    this.#timer = setTimeout(() => this.now(), Math.max(0, Math.min(MAX_PAUSE, wait)));
  }

  /** @param {number} turn */
  async #refresh(turn) {
    const route = this.route();
    const key = route.service;
    const [scaler, table] = await Promise.all([
      getJson("api/v1/scaler"),
      key === null ? getJson(tablePath(route)) : null,
    ]);
    // A scaler that does not lead knows no Service, and would respond with an error.
    const view = key !== null && scaler.leader.leads ? await getJson(servicePath(key)) : null;
    if (turn !== this.#turns) return;
    this.scaler = scaler;
    if (key === null) {
      this.table = table;
      this.shown = route;
    } else this.service = { key, view };
    this.at = performance.now();
  }

  /**
   * @param {import("../connection.js").Connection["state"]} state
   * @param {string} error
   * @param {number} since
   * @param {number} turn
   */
  #connected(state, error, since, turn) {
    if (turn !== this.#turns) return;
    // A late response of a lost connection is no news, and a lost one keeps its time.
    const before = this.connection;
    if (!(before.state === "lost" && state === "late")) {
      this.connection = { state, error, since: before.state === state ? before.since : since, streaming: true };
    }
    this.changed();
  }
}
