// @ts-check
/** What happened to a revision while this page was open; stands still while somebody reads. */

import { arrange, element, mark, say } from "./dom.js";
import { clock, count } from "./format.js";
import { MISSED } from "./store.js";
import { happened } from "./words.js";

/** @typedef {import("./model.js").Happening} Happening */

/** Events that are shown. */
const MOST = 50;

export class EventList {
  #list = element("ol", {
    class: "event-list",
    tabindex: "0",
    "aria-label": "Events, the newest first",
  });
  #pause = element("button", { type: "button", class: "quiet", "aria-pressed": "false" }, "Pause");
  #note = element("span", { class: "muted", "aria-live": "off" });
  element = element(
    "div",
    {},
    element("p", { class: "event-tools" }, this.#pause, this.#note),
    this.#list,
  );
  #key = "";
  #read = false;
  /** Those that are shown, and no others: elements of all that is remembered are thousands.
   * @type {Map<Happening, Element>} */
  #items = new Map();
  /** The newest one that is shown. @type {Happening | undefined} */
  #newest;

  /** @param {() => void} changed called when it wants to be drawn */
  constructor(changed) {
    this.#pause.addEventListener("click", () => {
      mark(this.#pause, "aria-pressed", String(!this.#paused));
      say(this.#pause, this.#paused ? "Continue" : "Pause");
      changed();
    });
    const reads = (/** @type {boolean} */ read) => () => {
      this.#read = read;
      changed();
    };
    for (const event of ["mouseenter", "focus"]) this.#list.addEventListener(event, reads(true));
    for (const event of ["mouseleave", "blur"]) this.#list.addEventListener(event, reads(false));
  }

  get #paused() {
    return this.#pause.getAttribute("aria-pressed") === "true";
  }

  /** Turn to a revision. @param {string} key */
  look(key) {
    this.#key = key;
    this.#read = false;
    this.#newest = undefined;
    arrange(this.#list, []);
  }

  /** @param {Happening[]} events of all revisions, the newest first */
  draw(events) {
    const told = events.filter(({ kind, revision }) => revision === this.#key || kind === MISSED);
    const ours = told.slice(0, MOST);
    const still = (this.#paused || this.#read) && this.#list.children.length > 0;
    if (!still) {
      this.#newest = ours[0];
      this.#items = new Map(ours.map((event) => [event, this.#itemOf(event)]));
      arrange(this.#list, [...this.#items.values()]);
    }
    const held = this.#newest ? ours.indexOf(this.#newest) : 0;
    const more = held < 0 ? MOST : held;
    this.#list.hidden = !ours.length;
    if (!ours.length) say(this.#note, "None since this page was opened.");
    else if (still)
      say(
        this.#note,
        more ? `${count(more)} more; the list stands still while you read` : "the list stands still while you read",
      );
    else say(this.#note, "since this page was opened");
  }

  /** @param {Happening} event */
  #itemOf(event) {
    const known = this.#items.get(event);
    if (known) return known;
    return element(
      "li",
      { class: event.kind },
      element("time", { datetime: event.time }, clock(new Date(event.time))),
      element("span", {}, happened(event)),
    );
  }
}
