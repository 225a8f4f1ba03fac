// @ts-check
/**
 * Connects the modules: live.js fills the store, and each frame draws the page of the address from
 * the store.
 */

import { byId, setText } from "./dom.js";
import { focus, oncePerFrame, open, show } from "./frame.js";
import { Header } from "./header.js";
import { Live } from "./live.js";
import { Overview } from "./overview.js";
import { RevisionPage } from "./revision.js";
import { parse } from "./route.js";
import { Store } from "./store.js";
import { Announcer } from "./summary.js";

const changed = oncePerFrame(draw);
const store = new Store(changed);
const live = new Live(store);
const header = new Header();
const spoken = new Announcer();
const overview = new Overview(changed);
const page = new RevisionPage(byId("revision"), changed);

function draw() {
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
  show(byId("revision"), route.revision !== null);
  if (route.revision === null) overview.follow(route);
  else page.look(route.revision, overview.fragment);
  live.look(route.revision);
  if (!document.hidden) draw();
  if (first) return;
  const back = route.revision === null && !leaves ? overview.linkTo(left) : null;
  focus(route.revision !== null, back);
  scrollTo({ top: route.revision === null ? scrolled : 0 });
}

setText(byId("subline"), "Loading.");
open({ changed, follow, filter: overview.filter });
live.start();
