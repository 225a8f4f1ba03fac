// @ts-check
/** Connects the modules of the scaler's page: polls for the page of the address, and draws it. */

import { ConnectionSign } from "../connection.js";
import { byId } from "../dom.js";
import { focus, oncePerFrame, open, show } from "../frame.js";
import { Poll } from "./poll.js";
import { fragmentOf, parse } from "./route.js";
import { ServicePage } from "./service.js";
import { State } from "./state.js";
import { Table } from "./table.js";

/** Milliseconds after the last key until the filter is used. */
const TYPED = 200;

const filter = /** @type {HTMLInputElement} */ (byId("filter"));
const problems = /** @type {HTMLInputElement} */ (byId("problems"));
const sort = /** @type {HTMLSelectElement} */ (byId("sort"));

let route = parse(location.hash);
/** The fragment of the table that was shown last. */
let back = fragmentOf(route);
/** @type {number | undefined} */
let typing;

const changed = oncePerFrame(draw);
const poll = new Poll(() => route, changed);
const sign = new ConnectionSign();
const state = new State();
const table = new Table();
const page = new ServicePage();

function draw() {
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
  show(byId("service"), route.service !== null);
  if (route.service === null) {
    back = fragmentOf(route);
    if (filter.value !== route.filter) filter.value = route.filter;
    problems.checked = route.problems;
    sort.value = route.sort;
    byId("unknown-page").hidden = route.unknownPage === "";
    byId("unknown-page").textContent = `There is no page “${route.unknownPage}”; the table has all Services.`;
  }
  if (!document.hidden) draw();
  poll.now();
  if (first) return;
  const link = route.service === null && left !== null ? table.linkTo(left) : null;
  focus(route.service !== null, link);
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

filter.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => change({ filter: filter.value }), TYPED);
});
problems.addEventListener("change", () => change({ problems: problems.checked }));
sort.addEventListener("change", () => change({ sort: sort.value }));
byId("previous").addEventListener("click", () => change({ page: Math.max(0, route.page - 1) }));
byId("next").addEventListener("click", () => change({ page: route.page + 1 }));
open({ changed, follow, filter });
