// @ts-check
/** The overview: every revision, those first that need attention. */

import { compare } from "./attention.js";
import { arrange, element, found, mark, say } from "./dom.js";
import { count, counted } from "./format.js";
import { drawLegend } from "./pod_blocks.js";
import { written } from "./route.js";
import { Row } from "./row.js";
import { Summary } from "./summary.js";

/** @typedef {import("./store.js").Known} Known */
/** @typedef {import("./store.js").Store} Store */
/** @typedef {import("./route.js").Route} Route */

/** Rows that are made at first, and by each press of the button; the rest is counted. */
const PAGE = 100;
/** With no more revisions than this the idle ones are open from the beginning. */
const FEW = 30;

/**
 * Which of them are shown, in which order. Pure.
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

/** Part of the table: as many rows as are wanted, and a button for more. */
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
    say(this.#more, `Show ${Math.min(PAGE, rest)} more of ${count(rest)}`);
    arrange(this.into, rest > 0 ? [...rows, this.#end] : rows);
  }
}

export class Overview {
  #summary = new Summary();
  #filter = /** @type {HTMLInputElement} */ (found("filter"));
  #waiting = /** @type {HTMLInputElement} */ (found("waiting"));
  #active = new Body(found("active"), () => this.changed());
  #idle = new Body(found("idle"), () => this.changed());
  #toggle = element("button", { type: "button", "aria-controls": "idle" });
  #toggleRow = element(
    "tr",
    { role: "row", class: "fold" },
    element("th", { role: "rowheader", scope: "rowgroup", colspan: "8" }, this.#toggle),
  );
  /** Whether the idle ones are open; null while nobody has said. @type {boolean | null} */
  #open = null;
  /** @type {Map<string, Row>} */
  #rows = new Map();
  /** What was chosen last, and of what. @type {{of: string, is: ReturnType<typeof chosen>}} */
  #chosen = { of: "", is: { active: [], idle: [] } };
  /** @type {Route} */
  #route = { revision: null, filter: "", waiting: false, strayed: "" };

  /** @param {() => void} changed called when something else is to be shown */
  constructor(changed) {
    this.changed = changed;
    const chose = () => {
      this.#route = { ...this.#route, filter: this.#filter.value, waiting: this.#waiting.checked };
      history.replaceState(null, "", this.fragment);
      changed();
    };
    this.#filter.addEventListener("input", chose);
    this.#waiting.addEventListener("change", chose);
    drawLegend(found("pod-legend"));
    found("toolbar").addEventListener("submit", (event) => event.preventDefault());
    this.#toggle.addEventListener("click", () => {
      this.#open = this.#toggle.getAttribute("aria-expanded") !== "true";
      changed();
    });
  }

  /** What the address says of this page as it is now. */
  get fragment() {
    return written(this.#route);
  }

  /** Show what the address says. @param {Route} route */
  follow(route) {
    this.#route = route;
    if (this.#filter.value !== route.filter) this.#filter.value = route.filter;
    this.#waiting.checked = route.waiting;
    found("strayed").hidden = route.strayed === "";
    say(found("strayed"), `There is no page “${route.strayed}”; the table has all revisions.`);
  }

  /** @param {string} key @returns {HTMLElement | null} the link of its row, if there is one */
  linkTo(key) {
    return this.#rows.get(key)?.element.querySelector("a") ?? null;
  }

  /** Let the reader type a filter. */
  search() {
    this.#filter.focus();
    this.#filter.select();
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
    this.#drawFold(idle.length, open);
    this.#drawWords(active.length + idle.length, store.revisions.size);
  }

  /** Choose and sort, if anything is new since it was done last. @param {Store} store */
  #choose({ version, revisions }) {
    const of = `${version} ${this.fragment}`;
    if (of !== this.#chosen.of) this.#chosen = { of, is: chosen(revisions.values(), this.#route) };
    return this.#chosen.is;
  }

  /** @param {number} idle @param {boolean} open */
  #drawFold(idle, open) {
    say(this.#toggle, counted(idle, "idle revision"));
    mark(this.#toggle, "aria-expanded", String(open));
    arrange(found("idle-head"), idle ? [this.#toggleRow] : []);
  }

  /** @param {number} shown @param {number} all */
  #drawWords(shown, all) {
    say(
      found("shown"),
      shown === all ? counted(all, "revision") : `${count(shown)} of ${count(all)}`,
    );
    const empty = found("empty");
    empty.hidden = shown > 0;
    if (all === 0) say(empty, "No revision is known yet.");
    else if (this.#route.waiting) say(empty, "No revision has queued requests.");
    else say(empty, `No revision has “${this.#route.filter}” in its name.`);
  }
}
