// @ts-check
/** Both pages: drawing, the address, keys and the clock. */

import { byId } from "./dom.js";
import { clock } from "./format.js";

/** Milliseconds between two updates of ages. */
const TICK = 1000;

/** Return a function that draws once with the next frame. @param {() => void} draw @returns {() => void} */
export function oncePerFrame(draw) {
  let wanted = 0;
  return () => {
    wanted ||= requestAnimationFrame(() => {
      wanted = 0;
      if (!document.hidden) draw();
    });
  };
}

/**
 * Show the content, and follow the address.
 * @param {object} page
 * @param {() => void} page.changed called each second, and when the page becomes visible
 * @param {(first: boolean) => void} page.follow shows the page of the address
 * @param {HTMLInputElement} page.filter gets the focus by the key `/`
 */
export function open({ changed, follow, filter }) {
  byId("content").hidden = false;
  byId("skip").addEventListener("click", (event) => {
    event.preventDefault(); // the router would take its fragment for a page
    byId("content").focus();
  });
  byId("toolbar").addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", () => follow(false));
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.key !== "/") return;
    if (event.target === filter || byId("overview").hidden) return;
    event.preventDefault();
    filter.focus();
    filter.select();
  });
  document.addEventListener("visibilitychange", () => {
    // A hidden page makes no requests; its title shows since when.
    if (document.hidden) document.title = `as of ${clock(new Date())}: ${document.title}`;
    else changed();
  });
  setInterval(changed, TICK);
  follow(true);
}

/**
 * Show the overview, or the page of one object.
 * @param {HTMLElement} article the page of one object
 * @param {boolean} one whether the address names one
 */
export function show(article, one) {
  byId("overview").hidden = one;
  article.hidden = !one;
}

/** Focus the link to what was left, or else the heading. @param {boolean} one @param {HTMLElement | null} link */
export function focus(one, link) {
  (link ?? byId(one ? "name" : "headline")).focus({ preventScroll: true });
}
