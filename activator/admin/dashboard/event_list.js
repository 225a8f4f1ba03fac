// @ts-check
/** The events of a revision since the page was opened; the list pauses while a reader uses it. */

import { orderChildren, element, setAttr, setText } from "./dom.js";
import { clock, count } from "./format.js";
import { keyOfNames, worded } from "./model.js";
import { MISSED } from "./store.js";
import { eventText } from "./words.js";

/** @typedef {import("./model.js").ActivatorEvent} ActivatorEvent */
/** @typedef {import("./model.js").RevisionView} RevisionView */

/** Most events in the list. */
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
  /** The elements of shown events only: all stored events would make thousands of elements.
   * @type {Map<ActivatorEvent, Element>} */
  #items = new Map();
  /** The newest shown event. @type {ActivatorEvent | undefined} */
  #newest;

  /** @param {() => void} changed called when the list must be drawn */
  constructor(changed) {
    this.#pause.addEventListener("click", () => {
      setAttr(this.#pause, "aria-pressed", String(!this.#paused));
      setText(this.#pause, this.#paused ? "Continue" : "Pause");
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

  /** Select a revision. @param {string} key */
  look(key) {
    this.#key = key;
    this.#read = false;
    this.#newest = undefined;
    orderChildren(this.#list, []);
  }

  /** @param {ActivatorEvent[]} events of all revisions, the newest first @param {RevisionView} view the selected one */
  draw(events, view) {
    const matching = events.filter(
      ({ kind, revision, revisionKind }) =>
        keyOfNames(revisionKind, revision) === this.#key || kind === MISSED,
    );
    const shown = matching.slice(0, MOST);
    const still = (this.#paused || this.#read) && this.#list.children.length > 0;
    if (!still) {
      this.#newest = shown[0];
      this.#items = new Map(shown.map((event) => [event, this.#itemOf(event, view)]));
      orderChildren(this.#list, [...this.#items.values()]);
    }
    const held = this.#newest ? shown.indexOf(this.#newest) : 0;
    const more = held < 0 ? MOST : held;
    this.#list.hidden = !shown.length;
    if (!shown.length) setText(this.#note, "None since this page was opened.");
    else if (still)
      setText(
        this.#note,
        more ? `${count(more)} more; the list pauses while you read` : "the list pauses while you read",
      );
    else setText(this.#note, "since this page was opened");
  }

  /** @param {ActivatorEvent} event @param {RevisionView} view */
  #itemOf(event, view) {
    const known = this.#items.get(event);
    if (known) return known;
    return element(
      "li",
      { class: event.kind },
      element("time", { datetime: event.time }, clock(new Date(event.time))),
      element("span", {}, worded(eventText(event), view)),
    );
  }
}
