// @ts-check
/** The table of a revision's pods, with the rule that decides about each. */

import { orderChildren, element, setChildren, setAttr, setText } from "./dom.js";
import { count, seconds } from "./format.js";
import { podKind } from "./model.js";
import { blockOf } from "./pod_blocks.js";

/** @typedef {import("./model.js").PodView} PodView */

const COLUMNS = [
  ...["Pod", "Kubernetes", "Probe", "State", "Decision", "Rule", "In flight"],
  "Last error",
];
/** Most pods in the table. */
const MOST = 100;

/** @type {Record<string, number>} */
const ORDER = { wait: 0, use: 1, leave: 2 };

/**
 * Return the pods in the order of the table: by kind, then by address. Pure.
 * @param {import("./model.js").RevisionView} view
 * @returns {PodView[]}
 */
export function listed(view) {
  const pods = view.clusterIP ? [view.clusterIP, ...view.pods] : [...view.pods];
  return pods.sort((a, b) => (ORDER[a.decision] ?? 3) - (ORDER[b.decision] ?? 3));
}

/**
 * Return the rules that decided about these pods, with explanation and number of pods. Pure.
 * @param {PodView[]} pods
 * @returns {{rule: string, sentence: string, pods: number}[]}
 */
export function rulesOf(pods) {
  /** @type {Map<string, {rule: string, sentence: string, pods: number}>} */
  const rules = new Map();
  for (const { decidedBy, explanation } of pods) {
    const found = rules.get(explanation) ?? { rule: decidedBy, sentence: explanation, pods: 0 };
    found.pods += 1;
    rules.set(explanation, found);
  }
  return [...rules.values()];
}

/** @param {PodView} pod */
export function inFlight(pod) {
  const silent = pod.silentSeconds ? `, silent for ${seconds(pod.silentSeconds)}` : "";
  return `${count(pod.inFlight)} / ${pod.limit === null ? "∞" : count(pod.limit)}${silent}`;
}

/**
 * Return the address of a pod, with its zone if that is known. Pure.
 * @param {PodView} pod
 */
export function placeOf(pod) {
  const zone = pod.zone ? `, zone ${pod.zone}${pod.near ? " (own)" : ""}` : "";
  return pod.kubernetes === "service" ? `${pod.address} ClusterIP` : pod.address + zone;
}

export class PodTable {
  #rows = element("tbody", { role: "rowgroup" });
  #rules = element("dl", { class: "rules" });
  #none = element("p", { class: "empty" }, "No pod is known.");
  #table = element(
    "table",
    { role: "table", class: "pod-table", "aria-label": "Pods" },
    element(
      "thead",
      { role: "rowgroup" },
      element(
        "tr",
        { role: "row" },
        ...COLUMNS.map((name) => element("th", { role: "columnheader", scope: "col" }, name)),
      ),
    ),
    this.#rows,
  );
  #more = element("p", { class: "muted" });
  element = element("div", {}, this.#none, this.#table, this.#more, this.#rules);
  /** @type {Map<string, PodRow>} */
  #known = new Map();
  #shownText = "";

  /** @param {import("./model.js").RevisionView} view */
  draw(view) {
    const pods = listed(view);
    this.#none.hidden = pods.length > 0;
    this.#table.hidden = !pods.length;
    /** @type {Map<string, PodRow>} */
    const rows = new Map();
    for (const pod of pods.slice(0, MOST)) {
      // Two pods can have the same address while the older one drains.
      const key = `${pod.address} ${pod.uid} ${pod.state === "draining"}`;
      const row = this.#known.get(key) ?? new PodRow();
      row.draw(pod);
      rows.set(key, row);
    }
    this.#known = rows;
    orderChildren(
      this.#rows,
      [...rows.values()].map((row) => row.element),
    );
    const rest = pods.length - rows.size;
    setText(this.#more, rest > 0 ? `and ${count(rest)} more` : "");
    this.#drawRules(pods);
  }

  /** @param {PodView[]} pods */
  #drawRules(pods) {
    const rules = rulesOf(pods);
    const found = JSON.stringify(rules);
    if (found === this.#shownText) return;
    this.#shownText = found;
    const parts = rules.flatMap(({ rule, sentence, pods: many }) => [
      element("dt", {}, element("code", {}, rule), many < pods.length && ` (${many})`),
      element("dd", {}, sentence),
    ]);
    setChildren(this.#rules, ...parts);
  }
}

class PodRow {
  #cells = COLUMNS.slice(1).map((name) => element("td", { role: "cell", "data-label": name }));
  #address = element("span");
  #name = element("th", { role: "rowheader", scope: "row", class: "address" });
  element = element("tr", { role: "row" }, this.#name, ...this.#cells);
  #kind = "";

  /** @param {PodView} pod */
  draw(pod) {
    const kind = podKind(pod);
    if (kind !== this.#kind) setChildren(this.#name, blockOf(kind), this.#address);
    this.#kind = kind;
    setAttr(this.element, "data-pod", pod.address);
    setText(this.#address, placeOf(pod));
    setAttr(this.element, "class", pod.decision);
    const status = pod.probeStatus === null ? "" : ` ${pod.probeStatus}`;
    const probed = pod.lastProbeSecondsAgo === null ? "" : `, ${ago(pod.lastProbeSecondsAgo)}`;
    const texts = [
      pod.kubernetes,
      `${pod.probe}${status}${probed}`,
      pod.stateSecondsAgo === null
        ? pod.state
        : `${pod.state}, for ${seconds(pod.stateSecondsAgo)}`,
      pod.decision,
      pod.decidedBy,
      inFlight(pod),
      pod.lastError ?? "–",
    ];
    texts.forEach((text, place) => setText(this.#cells[place], text));
  }
}

/** @param {number} s */
function ago(s) {
  return `${seconds(s)} ago`;
}
