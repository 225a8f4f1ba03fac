// @ts-check
/** The parts of the header that each page has: pills, the state of the connection, problems. */

import { element, setChildren, byId, setText } from "./dom.js";
import { clockAt } from "./format.js";

/** Milliseconds for which the page shows that a lost connection is back. */
const BACK = 5000;

/**
 * @typedef {object} Connection
 * @property {"connecting" | "live" | "late" | "lost"} state
 * @property {string} error why it is lost
 * @property {number} since when this state began, on the clock of `performance.now`
 * @property {boolean} streaming whether the page gets all changes
 */

/** @param {HTMLElement} pill @param {"good" | "bad" | "wait"} kind @param {string} text */
export function showPill(pill, kind, text) {
  setText(pill, text);
  pill.hidden = false;
  pill.className = `pill ${kind}`;
}

/** @param {string[]} texts */
export function drawProblems(texts) {
  const list = byId("notices");
  list.hidden = !texts.length;
  // Ages change each second: keep the elements, so that screen readers do not repeat them.
  const same = texts.length === list.children.length;
  if (same) texts.forEach((text, place) => setText(list.children[place], text));
  else setChildren(list, ...texts.map((text) => element("li", {}, text)));
}

/** Shows whether the page is up to date, and since when it is not. */
export class ConnectionSign {
  #wasLost = false;
  #backUntil = 0;

  /** @param {Connection} connection @param {number} now */
  draw(connection, now) {
    const lost = connection.state === "lost";
    const since = clockAt(connection.since, now);
    if (this.#wasLost && connection.state === "live") this.#backUntil = now + BACK;
    this.#wasLost = lost;
    document.documentElement.classList.toggle("stale", lost);
    byId("lost").hidden = !lost;
    if (lost) {
      const why = connection.error ? ` (${connection.error})` : "";
      setText(
        byId("lost"),
        `Connection lost at ${since}${why}. The page shows the state of that time; only ages continue. ` +
          "The page tries again.",
      );
      showPill(byId("connection"), "bad", `lost since ${since}`);
    } else if (connection.state === "late") {
      showPill(byId("connection"), "wait", `no response since ${since}`);
    } else if (connection.state === "connecting") showPill(byId("connection"), "wait", "connecting");
    else if (now < this.#backUntil) showPill(byId("connection"), "good", "live again");
    else if (connection.streaming) showPill(byId("connection"), "good", "live");
    else showPill(byId("connection"), "wait", "no event stream, polling");
  }
}
