// @ts-check
/** The last cold starts of a revision, with their phases as bars. */

import { orderChildren, element, setText } from "./dom.js";
import { counted, finely, moment } from "./format.js";
import { worded } from "./model.js";

/** @typedef {import("./model.js").ColdStartView} ColdStartView */

/** The phases of a cold start: the event that ends a phase, and its description. */
export const PHASES = {
  "stat-sent": "a report to the autoscaler",
  address: "Kubernetes lists a pod",
  probe: "the first probe",
  "probe-passed": "the probe passes",
  dispatched: "the pod is assigned",
  "first-byte": "the first byte of the response",
};

/**
 * A phase of a cold start.
 * @typedef {object} Stretch
 * @property {string} phase the event that ended it; `waiting` for the phase in progress
 * @property {number} from seconds since the start
 * @property {number} lasted seconds
 */

/**
 * Return the phases of a cold start in order. Pure.
 * @param {ColdStartView} coldStart
 * @param {number} soFar seconds since the start of a cold start in progress
 * @returns {Stretch[]}
 */
export function stretches(coldStart, soFar) {
  /** @type {Stretch[]} */
  const all = [];
  let from = 0;
  for (const [phase, at] of Object.entries(coldStart.phases)) {
    all.push({ phase, from, lasted: Math.max(0, at - from) });
    from = at;
  }
  const end = coldStart.seconds ?? Math.max(from, soFar);
  if (end - from > 0.0005) all.push({ phase: "waiting", from, lasted: end - from });
  return all;
}

/** @param {ColdStartView} coldStart @param {number} soFar as in `stretches` @returns {number} its duration in seconds */
export function lengthOf(coldStart, soFar) {
  return coldStart.seconds ?? Math.max(0, soFar, ...Object.values(coldStart.phases));
}

const NONE =
  "None yet. A cold start begins with a request that arrives while no pod is usable. It does not " +
  "count if a pod was usable a moment before.";

export class ColdStartList {
  #none = element("p", { class: "empty" });
  #list = element("ol", { class: "cold-start-list" });
  #legend = element(
    "ul",
    { class: "legend", "aria-hidden": "true" },
    ...Object.entries(PHASES).map(([phase, words]) =>
      element("li", {}, element("span", { class: `key ${phase}` }), `${phase}: ${words}`),
    ),
    element("li", {}, element("span", { class: "key waiting" }), "waiting: the phase in progress"),
  );
  element = element("div", {}, this.#none, this.#legend, this.#list);
  /** The items by their content. @type {Map<string, Element>} */
  #items = new Map();

  /**
   * @param {import("./model.js").RevisionView} view
   * @param {number} age seconds that the first queued request has waited
   */
  draw(view, age) {
    const all = view.coldStarts ?? [];
    this.#none.hidden = all.length > 0;
    setText(this.#none, worded(NONE, view));
    this.#legend.hidden = this.#list.hidden = !all.length;
    const soFar = Math.round(age * 10) / 10;
    const longest = Math.max(...all.map((one) => lengthOf(one, soFar)), 0.001);
    const before = this.#items;
    this.#items = new Map(
      all.map((one) => {
        const key = JSON.stringify([one, longest, one.seconds === null && soFar]);
        // An unchanged item keeps its selection.
        return [key, before.get(key) ?? itemOf(one, soFar, longest, view)];
      }),
    );
    orderChildren(this.#list, [...this.#items.values()]);
  }
}

/** @param {ColdStartView} coldStart @param {number} soFar @param {number} longest @param {import("./model.js").RevisionView} view */
function itemOf(coldStart, soFar, longest, view) {
  const parts = stretches(coldStart, soFar);
  const lasted = lengthOf(coldStart, soFar);
  const ended = coldStart.outcome ?? "in progress";
  const head = element(
    "p",
    { class: "cold-start-head" },
    element("time", { datetime: coldStart.began }, moment(new Date(coldStart.began), new Date())),
    element("strong", { class: "number" }, finely(lasted)),
    element("span", { class: coldStart.outcome === "served" ? "" : "wait-text" }, ended),
    element("span", { class: "muted" }, worded(remarks(coldStart), view)),
  );
  const bar = element("div", { class: "cold-start-bar", "aria-hidden": "true" });
  for (const { phase, lasted: s } of parts) {
    const wide = (s / longest) * 100;
    const part = element("span", { class: `stretch ${phase}`, title: phaseText(phase, s) });
    part.style.inlineSize = `${wide.toFixed(2)}%`;
    if (wide > 8) setText(part, finely(s));
    bar.append(part);
  }
  const words = parts.map(({ phase, lasted: s }) => phaseText(phase, s)).join(" · ");
  return element("li", {}, head, bar, element("p", { class: "small muted" }, words));
}

/** @param {string} phase @param {number} s */
function phaseText(phase, s) {
  return `${phase} ${phase === "waiting" ? "" : "+"}${finely(s)}`;
}

/** @param {ColdStartView} coldStart */
function remarks({ requests, pod, probeAheadSeconds }) {
  const by = pod === null ? "" : `, first response from ${pod}`;
  const ahead =
    probeAheadSeconds === null
      ? ""
      : `, ${finely(probeAheadSeconds)} before Kubernetes listed it as ready`;
  return `${counted(requests, "request")} waited${by}${ahead}`;
}
