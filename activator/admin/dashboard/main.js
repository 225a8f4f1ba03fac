// @ts-check
/**
 * Puts the page together: what is known goes from live.js into the store, and from there, once per
 * frame, onto the page that the address names.
 */

import { found, say } from "./dom.js";
import { clock } from "./format.js";
import { Header } from "./header.js";
import { Live } from "./live.js";
import { Overview } from "./overview.js";
import { RevisionPage } from "./revision.js";
import { parse } from "./route.js";
import { Store } from "./store.js";
import { Spoken } from "./summary.js";

/** Milliseconds from one look at the clock to the next: ages go on by themselves. */
const TICK = 1000;

let wanted = 0;

/** Draw with the next frame, however often this is called before it. */
function changed() {
  wanted ||= requestAnimationFrame(draw);
}

const store = new Store(changed);
const live = new Live(store);
const header = new Header();
const spoken = new Spoken();
const overview = new Overview(changed);
const page = new RevisionPage(found("revision"), changed);

function draw() {
  wanted = 0;
  if (document.hidden) return; // drawn when it is seen again; its title says what it said
  const now = performance.now();
  header.draw(store, now, Boolean(found("overview").hidden));
  spoken.draw(store);
  if (found("revision").hidden) overview.draw(store, now);
  else page.draw(store, now);
}

/** Where the overview was left. */
let scrolled = 0;

/** Show the page that the address names. @param {boolean} first whether it was opened with it */
function follow(first) {
  const route = parse(location.hash);
  const leaves = found("revision").hidden;
  const left = page.key;
  if (leaves && route.revision !== null) scrolled = scrollY;
  found("overview").hidden = route.revision !== null;
  found("revision").hidden = route.revision === null;
  if (route.revision === null) overview.follow(route);
  else page.look(route.revision, overview.fragment);
  live.look(route.revision);
  draw();
  if (first) return;
  const back = route.revision === null && !leaves ? overview.linkTo(left) : null;
  const heading = found(route.revision === null ? "headline" : "name");
  (back ?? heading).focus({ preventScroll: true });
  scrollTo({ top: route.revision === null ? scrolled : 0 });
}

/** Say in the title since when nothing is asked: nobody looks at more of a page that is hidden. */
function hid() {
  if (document.hidden) document.title = `as of ${clock(new Date())}: ${document.title}`;
  else changed();
}

/** @param {KeyboardEvent} event */
function pressed(event) {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const typing = event.target instanceof HTMLInputElement && event.target.type === "search";
  if (event.key === "/" && !typing && !found("overview").hidden) {
    event.preventDefault();
    overview.search();
  }
}

found("content").hidden = false;
found("skip").addEventListener("click", (event) => {
  event.preventDefault(); // its fragment would be taken for a page
  found("content").focus();
});
addEventListener("hashchange", () => follow(false));
addEventListener("keydown", pressed);
document.addEventListener("visibilitychange", hid);
setInterval(changed, TICK);
say(found("subline"), "Loading.");
follow(true);
live.start();
