// @ts-check
/**
 * Connects the modules: live.js fills the store, and each frame draws the page of the address from
 * the store.
 */

import { byId, setText } from "./dom.js";
import { clock } from "./format.js";
import { Header } from "./header.js";
import { Live } from "./live.js";
import { Overview } from "./overview.js";
import { RevisionPage } from "./revision.js";
import { parse } from "./route.js";
import { Store } from "./store.js";
import { Announcer } from "./summary.js";

/** Milliseconds between two updates of ages. */
const TICK = 1000;

let wanted = 0;

/** Draw once with the next frame, even after several calls. */
function changed() {
  wanted ||= requestAnimationFrame(draw);
}

const store = new Store(changed);
const live = new Live(store);
const header = new Header();
const spoken = new Announcer();
const overview = new Overview(changed);
const page = new RevisionPage(byId("revision"), changed);

function draw() {
  wanted = 0;
  if (document.hidden) return; // it is drawn when it becomes visible
  const now = performance.now();
  header.draw(store, now, Boolean(byId("overview").hidden));
  spoken.draw(store);
  if (byId("revision").hidden) overview.draw(store, now);
  else page.draw(store, now);
}

/** Scroll position of the overview. */
let scrolled = 0;

/** Show the page of the address. @param {boolean} first whether the browser opened this page */
function follow(first) {
  const route = parse(location.hash);
  const leaves = byId("revision").hidden;
  const left = page.key;
  if (leaves && route.revision !== null) scrolled = scrollY;
  byId("overview").hidden = route.revision !== null;
  byId("revision").hidden = route.revision === null;
  if (route.revision === null) overview.follow(route);
  else page.look(route.revision, overview.fragment);
  live.look(route.revision);
  draw();
  if (first) return;
  const back = route.revision === null && !leaves ? overview.linkTo(left) : null;
  const heading = byId(route.revision === null ? "headline" : "name");
  (back ?? heading).focus({ preventScroll: true });
  scrollTo({ top: route.revision === null ? scrolled : 0 });
}

/** Show in the title since when a hidden page makes no requests. */
function hid() {
  if (document.hidden) document.title = `as of ${clock(new Date())}: ${document.title}`;
  else changed();
}

/** @param {KeyboardEvent} event */
function pressed(event) {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const typing = event.target instanceof HTMLInputElement && event.target.type === "search";
  if (event.key === "/" && !typing && !byId("overview").hidden) {
    event.preventDefault();
    overview.search();
  }
}

byId("content").hidden = false;
byId("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the router would take its fragment for a page
  byId("content").focus();
});
addEventListener("hashchange", () => follow(false));
addEventListener("keydown", pressed);
document.addEventListener("visibilitychange", hid);
setInterval(changed, TICK);
setText(byId("subline"), "Loading.");
follow(true);
live.start();
