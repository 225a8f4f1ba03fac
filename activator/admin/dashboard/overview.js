// @ts-check
/** The overview: a table of all revisions; those that need attention come first. */

import { compare } from "./attention.js";
import { orderChildren, element, byId, setAttr, setText } from "./dom.js";
import { count, counted } from "./format.js";
import { drawLegend } from "./pod_blocks.js";
import { fragmentOf } from "./route.js";
import { Row } from "./row.js";
import { Summary } from "./summary.js";
import { namesOf } from "./words.js";

/** @typedef {import("./store.js").Known} Known */
/** @typedef {import("./store.js").Store} Store */
/** @typedef {import("./route.js").Route} Route */

/** Rows that are shown at first, and added by each press of the button. */
const PAGE = 100;
/** Up to this number of revisions, idle ones are shown from the start. */
const FEW = 30;

/**
 * Return the shown revisions in order. Pure.
 * @param {Iterable<Known>} revisions
 * @param {{filter: string, waiting: boolean}} route
 * @returns {{active: Known[], idle: Known[]}}
 */
export function chosen(revisions, { filter, waiting }) {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const wanted = [...revisions].filter(({ key, rank }) => {
    const name = key.toLowerCase();
    return words.every((word) => name.includes(word)) && (!waiting || rank.level === "waiting");
  });
  wanted.sort(compare);
  const calm = wanted.findIndex(({ rank }) => rank.level === "idle");
  if (calm < 0) return { active: wanted, idle: [] };
  return { active: wanted.slice(0, calm), idle: wanted.slice(calm) };
}

/** A part of the table: its first rows, and a button for more. */
class Body {
  #most = PAGE;
  #more = element("button", { type: "button" });
  #end = element(
    "tr",
    { role: "row", class: "more" },
    element("td", { role: "cell", colspan: "8" }, this.#more),
  );

  /** @param {HTMLElement} into @param {() => void} changed */
  constructor(into, changed) {
    this.into = into;
    this.#more.addEventListener("click", () => {
      this.#most += PAGE;
      changed();
    });
  }

  /**
   * @param {Known[]} wanted
   * @param {(known: Known) => Element} rowOf
   */
  draw(wanted, rowOf) {
    const rows = wanted.slice(0, this.#most).map(rowOf);
    const rest = wanted.length - rows.length;
    setText(this.#more, `Show ${Math.min(PAGE, rest)} more of ${count(rest)}`);
    orderChildren(this.into, rest > 0 ? [...rows, this.#end] : rows);
  }
}

export class Overview {
  #summary = new Summary();
  /** The field for the filter. */
  filter = /** @type {HTMLInputElement} */ (byId("filter"));
  #waiting = /** @type {HTMLInputElement} */ (byId("waiting"));
  #active = new Body(byId("active"), () => this.changed());
  #idle = new Body(byId("idle"), () => this.changed());
  #toggle = element("button", { type: "button", "aria-controls": "idle" });
  #toggleRow = element(
    "tr",
    { role: "row", class: "fold" },
    element("th", { role: "rowheader", scope: "rowgroup", colspan: "8" }, this.#toggle),
  );
  /** Whether idle revisions are shown; null until the reader chooses. @type {boolean | null} */
  #open = null;
  /** @type {Map<string, Row>} */
  #rows = new Map();
  /** The last result of `chosen`, and its input. @type {{of: string, is: ReturnType<typeof chosen>}} */
  #chosen = { of: "", is: { active: [], idle: [] } };
  /** @type {Route} */
  #route = { revision: null, filter: "", waiting: false, unknownPage: "" };

  /** @param {() => void} changed called when the page must be drawn */
  constructor(changed) {
    this.changed = changed;
    const chose = () => {
      this.#route = { ...this.#route, filter: this.filter.value, waiting: this.#waiting.checked };
      history.replaceState(null, "", this.fragment);
      changed();
    };
    this.filter.addEventListener("input", chose);
    this.#waiting.addEventListener("change", chose);
    drawLegend(byId("pod-legend"));
    this.#toggle.addEventListener("click", () => {
      this.#open = this.#toggle.getAttribute("aria-expanded") !== "true";
      changed();
    });
  }

  /** The fragment of the address for the present filter. */
  get fragment() {
    return fragmentOf(this.#route);
  }

  /** Apply the address. @param {Route} route */
  follow(route) {
    this.#route = route;
    if (this.filter.value !== route.filter) this.filter.value = route.filter;
    this.#waiting.checked = route.waiting;
    byId("unknown-page").hidden = route.unknownPage === "";
    setText(byId("unknown-page"), `There is no page “${route.unknownPage}”; this is the overview.`);
  }

  /** @param {string} key @returns {HTMLElement | null} the link of its row, if it is shown */
  linkTo(key) {
    return this.#rows.get(key)?.element.querySelector("a") ?? null;
  }

  /** @param {Store} store @param {number} now */
  draw(store, now) {
    this.#summary.draw(store, now);
    if (!store.listed) return;
    const { active, idle } = this.#choose(store);
    const open = this.#open ?? (store.revisions.size <= FEW || this.#route.filter !== "");
    const used = new Set();
    const rowOf = (/** @type {Known} */ known) => {
      used.add(known.key);
      const row = this.#rows.get(known.key) ?? new Row(known.view);
      this.#rows.set(known.key, row);
      row.draw(known, store.history, now);
      return row.element;
    };
    this.#active.draw(active, rowOf);
    this.#idle.draw(open ? idle : [], rowOf);
    for (const key of this.#rows.keys()) if (!used.has(key)) this.#rows.delete(key);
    this.#drawFold(idle, open);
    this.#drawWords(active.length + idle.length, store.revisions);
  }

  /** Filter and sort the revisions, if anything has changed. @param {Store} store */
  #choose({ version, revisions }) {
    const of = `${version} ${this.fragment}`;
    if (of !== this.#chosen.of) this.#chosen = { of, is: chosen(revisions.values(), this.#route) };
    return this.#chosen.is;
  }

  /** @param {Known[]} idle @param {boolean} open */
  #drawFold(idle, open) {
    const [one, many] = namesOf(idle);
    setText(this.#toggle, counted(idle.length, `idle ${one}`, `idle ${many}`));
    setAttr(this.#toggle, "aria-expanded", String(open));
    orderChildren(byId("idle-head"), idle.length ? [this.#toggleRow] : []);
  }

  /** @param {number} shown @param {Store["revisions"]} revisions */
  #drawWords(shown, revisions) {
    const [one, many] = namesOf(revisions.values());
    const all = revisions.size;
    setText(
      byId("shown"),
      shown === all ? counted(all, one, many) : `${count(shown)} of ${count(all)}`,
    );
    const empty = byId("empty");
    empty.hidden = shown > 0;
    if (all === 0) setText(empty, "No revision, Service or route object is known yet.");
    else if (this.#route.waiting) setText(empty, `No ${one} has queued requests.`);
    else setText(empty, `No ${one} has “${this.#route.filter}” in its name.`);
  }
}
