// @ts-check
/** One revision in the table of the overview. */

import { element, setChildren, setAttr, setText } from "./dom.js";
import { clockAt, count, rate, seconds } from "./format.js";
import { ageOf, capacityOf, keyOf, stateOf, trouble, unitOf, worded } from "./model.js";
import { PodBlocks } from "./pod_blocks.js";
import { toRevision } from "./route.js";
import { Sparkline } from "./sparkline.js";
import { reasonSentence, failure } from "./words.js";

/** @typedef {import("./store.js").Known} Known */
/** @typedef {import("./history.js").HistoryView} HistoryView */

/** @type {Record<string, string>} what follows the name, by kind */
const LABELS = { service: " Service", "http-route": " route", fallback: " fallback" };

/** @param {string} label @param {string} name @param {...(Node | string)} children */
function cell(label, name, ...children) {
  return element("td", { role: "cell", "data-label": label, class: name }, ...children);
}

export class Row {
  #queued = element("span", { class: "number" });
  #spark = new Sparkline();
  #oldest = element("span", { class: "number" });
  #since = element("span", { class: "small muted" });
  #why = element("span", { class: "reason" });
  #because = element("span", { class: "small because" });
  #inFlight = element("span", { class: "number" });
  #load = new Load();
  #pods = new PodBlocks();
  #served = element("span", { class: "number" });
  #ends = cell("Errors, 1 min", "ends");
  /** @type {Known | null} */
  #known = null;
  /** @type {HistoryView | null} */
  #history = null;

  /** @param {import("./model.js").RevisionView} view */
  constructor(view) {
    const link = element(
      "a",
      { href: toRevision(keyOf(view)) },
      element("span", { class: "namespace" }, `${view.namespace}/`),
      view.name,
      ...(LABELS[view.kind ?? ""] ? [element("span", { class: "muted" }, LABELS[view.kind ?? ""])] : []),
    );
    this.element = element(
      "tr",
      { role: "row", "data-revision": keyOf(view) },
      element("th", { role: "rowheader", scope: "row", class: "name" }, link),
      cell("Queued", "queued", this.#queued, this.#spark.element),
      cell("Oldest", "oldest", this.#oldest, this.#since),
      cell("Why", "why", this.#why, this.#because),
      cell("In flight", "load", this.#inFlight, this.#load.element),
      cell("Pods", "pods-cell", this.#pods.element),
      cell("Served", "served", this.#served),
      this.#ends,
    );
  }

  /**
   * Draw the present state.
   * @param {Known} known
   * @param {HistoryView | null} history
   * @param {number} now on the clock of `performance.now`
   */
  draw(known, history, now) {
    if (known !== this.#known || history !== this.#history) this.#drawAll(known, history);
    this.#known = known;
    this.#history = history;
    this.#drawAge(known, now);
  }

  /** @param {Known} known @param {HistoryView | null} history */
  #drawAll({ view, past, recent, rank }, history) {
    setAttr(this.element, "class", rank.now);
    setText(this.#queued, count(view.queued));
    this.#spark.draw(past?.queued ?? [], history, view);
    const failed = rank.now === "failing" && recent.errors > 0;
    setText(this.#why, failed ? `${unitOf(view)}s failed` : stateOf(view));
    if (view.reason) setText(this.#because, worded(reasonSentence(view.reason, view.reasonDetail, view.kind), view));
    else if (trouble(view) && !failed) setText(this.#because, `A new ${unitOf(view)} would wait.`);
    else {
      const last = view.lastFailure ? `last ${failure(view.lastFailure)}` : "within the last minute";
      setText(this.#because, failed ? `${last}; present state: ${stateOf(view)}` : "");
    }
    const most = capacityOf(view);
    setText(this.#inFlight, `${count(view.inFlight)} / ${most === Infinity ? "∞" : count(most)}`);
    this.#load.draw(view.inFlight, most);
    this.#pods.draw(view);
    setText(this.#served, recent.servedPerSecond ? `${rate(recent.servedPerSecond)}/s` : "–");
    drawEnds(this.#ends, recent);
  }

  /** @param {Known} known @param {number} now */
  #drawAge({ view, at, rank }, now) {
    const waits = view.queued > 0;
    setText(this.#oldest, waits ? seconds(ageOf({ view, at }, now)) : "–");
    setText(this.#since, waits ? `since ${clockAt(rank.since, now)}` : "");
  }
}

/** The used part of a capacity as a bar, beside the number. */
export class Load {
  #part = element("span", { class: "part" });
  element = element("span", { class: "bar", "aria-hidden": "true" }, this.#part);

  /** @param {number} used @param {number} most Infinity without a limit */
  draw(used, most) {
    this.element.hidden = most === Infinity || most === 0;
    const share = most > 0 ? Math.min(1, used / most) : 0;
    this.#part.style.inlineSize = `${(share * 100).toFixed(1)}%`;
    this.element.classList.toggle("full", share === 1);
  }
}

/** @param {Element} into @param {import("./history.js").Recent} recent */
function drawEnds(into, { ends }) {
  const text = ends.map(([end, n]) => `${count(n)} ${end}`).join(", ");
  if (into.getAttribute("data-text") === text) return;
  setAttr(into, "data-text", text);
  const parts = ends.map(([end, n]) =>
    element("span", { class: end === "cancelled" ? "end muted" : "end bad" }, `${count(n)} ${end}`),
  );
  setChildren(into, ...(parts.length ? parts : [element("span", { class: "muted" }, "–")]));
}
