// @ts-check
/** Connects the modules of the scaler's page: polls for the page of the address, and draws it. */

import { ConnectionSign } from "../connection.js";
import { byId } from "../dom.js";
import { clock } from "../format.js";
import { Poll } from "./poll.js";
import { fragmentOf, parse } from "./route.js";
import { ServicePage } from "./service.js";
import { State } from "./state.js";
import { Table } from "./table.js";

/** Milliseconds between two updates of ages. */
const TICK = 1000;
/** Milliseconds after the last key until the filter is used. */
const TYPED = 200;

const filter = /** @type {HTMLInputElement} */ (byId("filter"));
const problems = /** @type {HTMLInputElement} */ (byId("problems"));
const sort = /** @type {HTMLSelectElement} */ (byId("sort"));

let route = parse(location.hash);
/** The fragment of the table that was shown last. */
let back = fragmentOf(route);
let wanted = 0;
/** @type {number | undefined} */
let typing;

const poll = new Poll(() => route, changed);
const sign = new ConnectionSign();
const state = new State();
const table = new Table();
const page = new ServicePage();

/** Draw once with the next frame, even after several calls. */
function changed() {
  wanted ||= requestAnimationFrame(draw);
}

function draw() {
  wanted = 0;
  if (document.hidden) return;
  const now = performance.now();
  const lost = poll.connection.state === "lost";
  sign.draw(poll.connection, now);
  const name = route.service ?? "activator scale";
  document.title = lost ? `connection lost – ${name}` : name;
  if (poll.scaler !== null) {
    const later = Math.max(0, now - poll.at) / 1000;
    state.draw(poll.scaler, poll.table?.summary ?? null, later, lost);
  }
  if (route.service !== null) {
    const known = poll.service?.key === route.service ? poll.service.view : undefined;
    page.draw(route.service, known, poll.scaler, back);
  } else if (poll.table !== null && poll.shown !== null) table.draw(poll.table, poll.shown);
}

/** Show the page of the address. @param {boolean} first whether the browser opened this page */
function follow(first) {
  clearTimeout(typing);
  const left = route.service;
  route = parse(location.hash);
  byId("overview").hidden = route.service !== null;
  byId("service").hidden = route.service === null;
  if (route.service === null) {
    back = fragmentOf(route);
    if (filter.value !== route.filter) filter.value = route.filter;
    problems.checked = route.problems;
    sort.value = route.sort;
    byId("unknown-page").hidden = route.unknownPage === "";
    byId("unknown-page").textContent = `There is no page “${route.unknownPage}”; the table has all Services.`;
  }
  draw();
  poll.now();
  if (first) return;
  const link = route.service === null && left !== null ? table.linkTo(left) : null;
  (link ?? byId(route.service === null ? "headline" : "name")).focus({ preventScroll: true });
  scrollTo({ top: 0 });
}

/** Change the table, and the address with it. @param {Partial<import("./route.js").Route>} to */
function change(to) {
  route = { ...route, page: 0, unknownPage: "", ...to };
  back = fragmentOf(route);
  byId("unknown-page").hidden = true;
  history.replaceState(null, "", back);
  poll.now();
}

/** @param {KeyboardEvent} event */
function pressed(event) {
  if (event.ctrlKey || event.altKey || event.metaKey || event.key !== "/") return;
  if (event.target === filter || byId("overview").hidden) return;
  event.preventDefault();
  filter.focus();
  filter.select();
}

filter.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => change({ filter: filter.value }), TYPED);
});
problems.addEventListener("change", () => change({ problems: problems.checked }));
sort.addEventListener("change", () => change({ sort: sort.value }));
byId("previous").addEventListener("click", () => change({ page: Math.max(0, route.page - 1) }));
byId("next").addEventListener("click", () => change({ page: route.page + 1 }));
byId("toolbar").addEventListener("submit", (event) => event.preventDefault());
byId("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the router would take its fragment for a page
  byId("content").focus();
});
byId("content").hidden = false;
addEventListener("hashchange", () => follow(false));
addEventListener("keydown", pressed);
document.addEventListener("visibilitychange", () => {
  if (document.hidden) document.title = `as of ${clock(new Date())}: ${document.title}`;
  else changed();
});
setInterval(changed, TICK);
follow(true);
