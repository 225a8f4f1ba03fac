// @ts-check
/** The table of Services: one page of it, with a row for each Service. */

import { byId, element, orderChildren, setAttr, setText } from "../dom.js";
import { count, counted, moment } from "../format.js";
import { PAGE, toService } from "./route.js";
import { hasProblem, loadText, replicasText, whyText } from "./words.js";

/** @typedef {import("./words.js").Service} Service */
/** @typedef {import("./route.js").Route} Route */

/** @param {string} label @param {string} name @param {...(Node | string)} children */
function cell(label, name, ...children) {
  return element("td", { role: "cell", "data-label": label, class: name }, ...children);
}

class Row {
  #target = element("span", { class: "small muted" });
  #owner = element("span");
  #route = element("span", { class: "small muted" });
  #phase = element("span", { class: "phase" });
  #replicas = element("span", { class: "number" });
  #load = element("span", { class: "number" });
  #change = element("span", { class: "number" });
  #changed = element("span", { class: "small muted" });
  #why = element("span", { class: "reason" });
  #because = element("span", { class: "small because" });

  /** @param {Service} service */
  constructor({ namespace, name }) {
    const key = `${namespace}/${name}`;
    const link = element(
      "a",
      { href: toService(key) },
      element("span", { class: "namespace" }, `${namespace}/`),
      name,
    );
    this.element = element(
      "tr",
      { role: "row", "data-service": key },
      element("th", { role: "rowheader", scope: "row", class: "name" }, link, this.#target),
      cell("Owner, route", "owner", this.#owner, this.#route),
      cell("Phase", "phase-cell", this.#phase),
      cell("Wanted / current / ready", "replicas", this.#replicas),
      cell("Load", "load", this.#load),
      cell("Last change", "change", this.#change, this.#changed),
      cell("Why", "why", this.#why, this.#because),
    );
  }

  /** @param {Service} service @param {Date} today */
  draw(service, today) {
    const [reason, sentence] = whyText(service);
    setAttr(this.element, "class", `${service.phase ?? ""}${hasProblem(service) ? " problem" : ""}`);
    setText(this.#target, service.target ?? "no target");
    setText(this.#owner, service.owner);
    setText(this.#route, service.route);
    setText(this.#phase, service.phase ?? "–");
    setText(this.#replicas, replicasText(service.replicas));
    setText(this.#load, loadText(service.load.current));
    const change = service.lastChange;
    setText(this.#change, change ? `${change.before} → ${change.after}` : "–");
    setText(this.#changed, change ? `${moment(new Date(change.at), today)}: ${change.sentence}` : "");
    setText(this.#why, reason);
    setText(this.#because, sentence);
  }
}

export class Table {
  /** @type {Map<string, Row>} */
  #rows = new Map();

  /** @param {import("./poll.js").Table} table @param {Route} route */
  draw({ services, matching, summary }, route) {
    const today = new Date();
    const used = new Map();
    for (const service of services) {
      const key = `${service.namespace}/${service.name}`;
      const row = this.#rows.get(key) ?? new Row(service);
      row.draw(service, today);
      used.set(key, row);
    }
    this.#rows = used;
    orderChildren(byId("rows"), [...used.values()].map((row) => row.element));
    const all = summary.services;
    setText(byId("shown"), matching === all ? counted(all, "Service") : `${count(matching)} of ${count(all)}`);
    byId("empty").hidden = services.length > 0;
    setText(byId("empty"), emptyText(matching, all, route));
    this.#drawPager(matching, route);
  }

  /** @param {number} matching @param {Route} route */
  #drawPager(matching, { page }) {
    byId("pager").hidden = matching <= PAGE && page === 0;
    const last = Math.min(matching, (page + 1) * PAGE);
    setText(byId("place"), `${count(Math.min(matching, page * PAGE + 1))} to ${count(last)} of ${count(matching)}`);
    setAttr(byId("previous"), "disabled", page > 0 ? null : "");
    setAttr(byId("next"), "disabled", last < matching ? null : "");
  }

  /** @param {string} key @returns {HTMLElement | null} the link of its row, if it is shown */
  linkTo(key) {
    return this.#rows.get(key)?.element.querySelector("a") ?? null;
  }
}

/** @param {number} matching @param {number} all @param {Route} route */
function emptyText(matching, all, { filter, problems }) {
  if (all === 0) return "No Service with activator.dev/enabled is known here.";
  if (matching > 0) return "This page of the table is empty now; an earlier one has the Services.";
  if (filter) return `No Service has “${filter}”${problems ? " and a problem" : ""}.`;
  return "No Service has a problem.";
}
