// @ts-check
/** The answer in one sentence, and the sums of all revisions. */

import { compare } from "./attention.js";
import { element, fill, found, say } from "./dom.js";
import { clockAt, count, counted, rate, seconds } from "./format.js";
import { ageOf } from "./model.js";
import { toRevision } from "./route.js";
import { Sparkline } from "./sparkline.js";
import { because } from "./words.js";
import { recent } from "./history.js";

/** @typedef {import("./store.js").Known} Known */
/** @typedef {import("./store.js").Store} Store */

/**
 * What all revisions are together. Pure.
 * @typedef {object} Totals
 * @property {number} queued
 * @property {number} inFlight
 * @property {number} busy how many revisions have requests at pods
 * @property {Known[]} waiting those whose requests wait
 * @property {Known | null} longest the one of these whose first request has waited longest; where
 *   several have waited as long, to a second, the one that stands first in the table
 *
 * @param {Iterable<Known>} revisions
 * @returns {Totals}
 */
export function totals(revisions) {
  const all = [...revisions];
  const waiting = all.filter(({ view }) => view.queued > 0);
  /** @param {Known} known when its first request came */
  const came = ({ view, at }) => at - (view.oldestWaiterSeconds ?? 0) * 1000;
  const first = Math.min(...waiting.map(came));
  const oldest = waiting.filter((one) => came(one) < first + 1000).sort(compare);
  return {
    queued: all.reduce((sum, { view }) => sum + view.queued, 0),
    inFlight: all.reduce((sum, { view }) => sum + view.inFlight, 0),
    busy: all.filter(({ view }) => view.inFlight > 0).length,
    waiting,
    longest: oldest[0] ?? null,
  };
}

/** @param {number} n */
export function theyWait(n) {
  return n === 1 ? "1 request waits" : `${count(n)} requests wait`;
}

/**
 * What there is to say while nobody waits. Pure.
 * @param {Totals} all
 * @param {number} known revisions
 * @param {number} errors requests that were not served within the last minute
 */
export function calm({ inFlight, busy }, known, errors) {
  if (!known) return "No revision is known yet.";
  const failed = errors ? ` ${counted(errors, "request")} failed within the last minute.` : "";
  const of = counted(known, "revision");
  if (!inFlight) return `No request is in flight; ${of} known.${failed}`;
  return `${counted(inFlight, "request")} in flight to ${count(busy)} of ${of}.${failed}`;
}

/**
 * How many others wait, and for how many of them it is for the same reason. Pure.
 * @param {Known[]} waiting with the one that was told of
 * @param {string | null} reason of that one
 */
export function alsoWaiting(waiting, reason) {
  const others = waiting.length - 1;
  if (!others) return "";
  const same = waiting.filter(({ view }) => view.reason === reason).length - 1;
  const where = ` Requests also wait in ${counted(others, "other revision")},`;
  if (!same) return `${where} for other reasons.`;
  return `${where}${same < others ? ` in ${count(same)} of them` : ""} for the same reason.`;
}

/**
 * Say in the title of the tab how many wait, as long as that is known.
 * @param {string} name of what the page is about
 * @param {number} queued
 * @param {Store} store
 */
export function entitle(name, queued, { connection }) {
  const waiting = queued ? `${count(queued)} waiting – ` : "";
  document.title = `${connection.state === "lost" ? "connection lost – " : waiting}${name}`;
}

export class Summary {
  #headline = found("headline");
  #subline = found("subline");
  #spark = new Sparkline();
  /** @type {Record<string, HTMLElement>} */
  #numbers = {};
  #told = "";

  constructor() {
    const names = ["Waiting", "Oldest", "In flight", "Served", "Not served, 1 min"];
    for (const name of names) this.#numbers[name] = element("dd", { class: "number" });
    const tile = (/** @type {string} */ name) =>
      element("div", { class: "tile" }, element("dt", {}, name), this.#numbers[name]);
    const tiles = names.map(tile);
    tiles[0].append(element("dd", { class: "spark" }, this.#spark.element));
    fill(found("tiles"), ...tiles);
  }

  /** @param {Store} store @param {number} now */
  draw(store, now) {
    if (!store.listed) return;
    const all = totals(store.revisions.values());
    entitle("activator", all.queued, store);
    const oldest = all.longest === null ? null : ageOf(all.longest, now);
    this.#drawSentence(all, oldest, now, store);
    this.#drawTiles(all, oldest, store);
  }

  /** @param {Totals} all @param {number | null} oldest @param {number} now @param {Store} store */
  #drawSentence(all, oldest, now, { connection, history, revisions: { size: known } }) {
    const first = oldest === null ? "" : `, the first for ${seconds(oldest)}`;
    const sentence = all.queued ? `${theyWait(all.queued)}${first}` : "No request waits";
    const old = connection.state === "lost" ? "Last known: " : "";
    say(this.#headline, old ? `${old}${sentence.toLowerCase()}` : sentence);
    this.#headline.classList.toggle("waits", all.queued > 0);
    if (all.longest === null) {
      const told = calm(all, known, recent(history?.activator, history?.stepSeconds ?? 1).errors);
      this.#drawOnce(told, () => [told]);
      return;
    }
    const { key, view, rank } = all.longest;
    const since = clockAt(rank.since, now);
    const more = alsoWaiting(all.waiting, view.reason);
    const why = because(view.reason ?? "", view.reasonDetail);
    this.#drawOnce([key, since, more, why].join("|"), () => [
      "In ",
      element("a", { href: toRevision(key) }, key),
      ` since ${since}: ${why}${more}`,
    ]);
  }

  /** @param {string} told @param {() => (Node | string)[]} make */
  #drawOnce(told, make) {
    if (told !== this.#told) fill(this.#subline, ...make());
    this.#told = told;
  }

  /** @param {Totals} all @param {number | null} oldest @param {Store} store */
  #drawTiles(all, oldest, store) {
    const past = store.history?.activator;
    const lately = recent(past, store.history?.stepSeconds ?? 1);
    say(this.#numbers.Waiting, count(all.queued));
    say(this.#numbers.Oldest, oldest === null ? "–" : seconds(oldest));
    say(this.#numbers["In flight"], count(all.inFlight));
    say(this.#numbers.Served, `${rate(lately.servedPerSecond)}/s`);
    say(this.#numbers["Not served, 1 min"], count(lately.errors));
    this.#numbers["Not served, 1 min"].classList.toggle("bad", lately.errors > 0);
    this.#numbers.Waiting.classList.toggle("waits", all.queued > 0);
    this.#spark.draw(past?.queued ?? [], store.history);
  }
}

/**
 * Says to those who cannot see the page what has changed, and not each tick: who waits and why.
 */
export class Spoken {
  #into = found("spoken");

  /** @param {Store} store */
  draw(store) {
    if (!store.listed) return;
    const { waiting, longest } = totals(store.revisions.values());
    if (store.connection.state === "lost") say(this.#into, "The connection is lost.");
    else if (longest === null) say(this.#into, "No request waits.");
    else {
      const where = waiting.length === 1 ? longest.key : counted(waiting.length, "revision");
      say(this.#into, `Requests wait in ${where}: ${longest.view.reason}.`);
    }
  }
}
