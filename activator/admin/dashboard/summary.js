// @ts-check
/** The headline and the sums of all revisions. */

import { compare } from "./attention.js";
import { element, setChildren, byId, setText } from "./dom.js";
import { clockAt, count, counted, rate, seconds } from "./format.js";
import { ageOf, worded } from "./model.js";
import { toRevision } from "./route.js";
import { Sparkline } from "./sparkline.js";
import { namesOf, reasonSentence } from "./words.js";
import { recent } from "./history.js";

/** @typedef {import("./store.js").Known} Known */
/** @typedef {import("./store.js").Store} Store */

/**
 * Sums over all revisions. Pure.
 * @typedef {object} Totals
 * @property {number} queued
 * @property {number} inFlight
 * @property {number} busy the number of revisions with requests in flight
 * @property {[string, string]} names the words for one and for several of them
 * @property {Known[]} waiting revisions with queued requests
 * @property {Known | null} longest the revision whose first queued request has waited longest; among
 *   equals, to a second, the first one of the table
 *
 * @param {Iterable<Known>} revisions
 * @returns {Totals}
 */
export function totals(revisions) {
  const all = [...revisions];
  const waiting = all.filter(({ view }) => view.queued > 0);
  /** @param {Known} known @returns {number} when its first queued request arrived */
  const came = ({ view, at }) => at - (view.oldestWaiterSeconds ?? 0) * 1000;
  const first = Math.min(...waiting.map(came));
  const oldest = waiting.filter((one) => came(one) < first + 1000).sort(compare);
  return {
    queued: all.reduce((sum, { view }) => sum + view.queued, 0),
    inFlight: all.reduce((sum, { view }) => sum + view.inFlight, 0),
    busy: all.filter(({ view }) => view.inFlight > 0).length,
    names: namesOf(all),
    waiting,
    longest: oldest[0] ?? null,
  };
}

/** @param {number} n */
export function requestsWait(n, unit = "request") {
  return n === 1 ? `1 ${unit} waits` : `${count(n)} ${unit}s wait`;
}

/**
 * Return the sentence while no request waits. Pure.
 * @param {Totals} all
 * @param {number} known revisions
 * @param {number} errors requests that failed within the last minute
 */
export function calm({ inFlight, busy, names }, known, errors) {
  if (!known) return "No revision, Service or route object is known yet.";
  const failed = errors ? ` ${counted(errors, "request")} failed within the last minute.` : "";
  const of = counted(known, ...names);
  if (!inFlight) return `No request is in flight; ${of} known.${failed}`;
  return `${counted(inFlight, "request")} in flight to ${count(busy)} of ${of}.${failed}`;
}

/**
 * Return a sentence about the other revisions with queued requests. Pure.
 * @param {Known[]} waiting including the revision of the headline
 * @param {string | null} reason the headline's reason
 */
export function alsoWaiting(waiting, reason) {
  const others = waiting.length - 1;
  if (!others) return "";
  const same = waiting.filter(({ view }) => view.reason === reason).length - 1;
  const [one, many] = namesOf(waiting);
  const where = ` Requests also wait in ${counted(others, `other ${one}`, `other ${many}`)},`;
  if (!same) return `${where} for other reasons.`;
  return `${where}${same < others ? ` in ${count(same)} of them` : ""} for the same reason.`;
}

/**
 * Show the number of queued requests in the title of the tab, while the connection works.
 * @param {string} name the name of the page
 * @param {number} queued
 * @param {Store} store
 */
export function setTitle(name, queued, { connection }) {
  const waiting = queued ? `${count(queued)} queued – ` : "";
  document.title = `${connection.state === "lost" ? "connection lost – " : waiting}${name}`;
}

export class Summary {
  #headline = byId("headline");
  #subline = byId("subline");
  #spark = new Sparkline();
  /** @type {Record<string, HTMLElement>} */
  #numbers = {};
  #shownText = "";

  constructor() {
    const names = ["Queued", "Oldest", "In flight", "Served", "Errors, 1 min"];
    for (const name of names) this.#numbers[name] = element("dd", { class: "number" });
    const tile = (/** @type {string} */ name) =>
      element("div", { class: "tile" }, element("dt", {}, name), this.#numbers[name]);
    const tiles = names.map(tile);
    tiles[0].append(element("dd", { class: "spark" }, this.#spark.element));
    setChildren(byId("tiles"), ...tiles);
  }

  /** @param {Store} store @param {number} now */
  draw(store, now) {
    if (!store.listed) return;
    const all = totals(store.revisions.values());
    setTitle("activator", all.queued, store);
    const oldest = all.longest === null ? null : ageOf(all.longest, now);
    this.#drawSentence(all, oldest, now, store);
    this.#drawTiles(all, oldest, store);
  }

  /** @param {Totals} all @param {number | null} oldest @param {number} now @param {Store} store */
  #drawSentence(all, oldest, now, { connection, history, revisions: { size: known } }) {
    const first = oldest === null ? "" : `, the first for ${seconds(oldest)}`;
    const sentence = all.queued ? `${requestsWait(all.queued)}${first}` : "No request waits";
    const old = connection.state === "lost" ? "Last known: " : "";
    setText(this.#headline, old ? `${old}${sentence.toLowerCase()}` : sentence);
    this.#headline.classList.toggle("waits", all.queued > 0);
    if (all.longest === null) {
      const text = calm(all, known, recent(history?.activator, history?.stepSeconds ?? 1).errors);
      this.#drawOnce(text, () => [text]);
      return;
    }
    const { key, view, rank } = all.longest;
    const since = clockAt(rank.since, now);
    const more = alsoWaiting(all.waiting, view.reason);
    const why = worded(reasonSentence(view.reason ?? "", view.reasonDetail, view.kind), view);
    this.#drawOnce([key, since, more, why].join("|"), () => [
      "In ",
      element("a", { href: toRevision(key) }, key),
      ` since ${since}: ${why}${more}`,
    ]);
  }

  /** @param {string} text @param {() => (Node | string)[]} make */
  #drawOnce(text, make) {
    if (text !== this.#shownText) setChildren(this.#subline, ...make());
    this.#shownText = text;
  }

  /** @param {Totals} all @param {number | null} oldest @param {Store} store */
  #drawTiles(all, oldest, store) {
    const past = store.history?.activator;
    const lately = recent(past, store.history?.stepSeconds ?? 1);
    setText(this.#numbers.Queued, count(all.queued));
    setText(this.#numbers.Oldest, oldest === null ? "–" : seconds(oldest));
    setText(this.#numbers["In flight"], count(all.inFlight));
    setText(this.#numbers.Served, `${rate(lately.servedPerSecond)}/s`);
    setText(this.#numbers["Errors, 1 min"], count(lately.errors));
    this.#numbers["Errors, 1 min"].classList.toggle("bad", lately.errors > 0);
    this.#numbers.Queued.classList.toggle("waits", all.queued > 0);
    this.#spark.draw(past?.queued ?? [], store.history);
  }
}

/**
 * Announces changes to screen readers: which revisions have queued requests, and why.
 */
export class Announcer {
  #into = byId("spoken");

  /** @param {Store} store */
  draw(store) {
    if (!store.listed) return;
    const { waiting, longest } = totals(store.revisions.values());
    if (store.connection.state === "lost") setText(this.#into, "The connection is lost.");
    else if (longest === null) setText(this.#into, "No request waits.");
    else {
      const where = waiting.length === 1 ? longest.key : counted(waiting.length, ...namesOf(waiting));
      setText(this.#into, `Requests wait in ${where}: ${longest.view.reason}.`);
    }
  }
}
