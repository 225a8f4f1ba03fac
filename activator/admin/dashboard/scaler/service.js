// @ts-check
/** The page of one Service: who scales it, why nothing is scaled, and what to do. */

import { byId, element, setChildren } from "../dom.js";
import { moment } from "../format.js";
import { hasProblem, leaderText, loadText, steps, whyText } from "./words.js";

/** @typedef {import("./words.js").Service} Service */
/** @typedef {import("./words.js").Scaler} Scaler */

export class ServicePage {
  #shown = "";

  /**
   * @param {string} key NAMESPACE/NAME
   * @param {Service | null | undefined} view null for an unknown one, undefined before a response
   * @param {Scaler | null} scaler
   * @param {string} back the fragment of the table
   */
  draw(key, view, scaler, back) {
    // Elements that stay keep focus and selection.
    const text = JSON.stringify([key, view ?? String(view), scaler?.leader, scaler?.dashboard, back]);
    if (text === this.#shown) return;
    const heading = byId("service").contains(document.activeElement);
    this.#shown = text;
    setChildren(
      byId("service"),
      element("a", { class: "back", href: back }, "← All Services"),
      element("div", { class: "title" }, element("h1", { id: "name", tabindex: "-1" }, key)),
      ...(view && scaler ? sections(key, view, scaler) : [missing(view, scaler)]),
    );
    if (heading) byId("name").focus({ preventScroll: true });
  }
}

/** @param {Service | null | undefined} view @param {Scaler | null} scaler */
function missing(view, scaler) {
  if (view === undefined || scaler === null) return element("p", {}, "Loading.");
  if (!scaler.leader.leads) return element("p", { class: "because" }, leaderText(scaler));
  return element("p", { class: "because" }, "No such Service has activator.dev/enabled, or it was deleted.");
}

/** @param {string} key @param {Service} view @param {Scaler} scaler */
function sections(key, view, scaler) {
  return [
    element("div", { class: "sections" }, answer(view, scaler), facts(view), activators(view)),
    scaler.dashboard === null
      ? null
      : element("p", {}, element("a", { href: activatorPage(scaler.dashboard, key) }, "Its requests, on the activator's dashboard")),
  ];
}

/** @param {string} dashboard @param {string} key */
function activatorPage(dashboard, key) {
  return `${dashboard.replace(/\/?$/, "/")}#/services/${key.split("/").map(encodeURIComponent).join("/")}`;
}

/** @param {string} name @param {string} id @param {...(Node | string | null)} children */
function panel(name, id, ...children) {
  return element("section", { class: "panel", "aria-labelledby": id }, element("h2", { id }, name), ...children);
}

/** @param {Service} view @param {Scaler} scaler */
function answer(view, scaler) {
  const [reason, sentence] = whyText(view);
  const known = reason ? [{ reason, note: sentence }] : [];
  const others = view.findings.filter((one) => one.reason !== reason || one.note !== sentence);
  const listed = [...known, ...others];
  const made = panel(
    "Why",
    "why-name",
    listed.length ? null : element("p", { class: "sentence" }, sentence || "Scaled as its load asks for."),
    ...listed.flatMap(({ reason: word, note }) => [
      element("p", { class: "sentence" }, word),
      element("p", { class: "because" }, note),
      element("div", { class: "todo" }, ...steps(word, view, scaler.namespace).map(step)),
    ]),
    listed.length && view.sentence ? element("p", { class: "muted" }, `The rule in force: ${view.sentence}.`) : null,
  );
  made.classList.add("answer");
  made.classList.toggle("waits", hasProblem(view));
  return made;
}

/** @param {{text: string, command: boolean}} one */
function step({ text, command }) {
  return element(command ? "pre" : "p", {}, text);
}

/** @param {Service} view */
function facts(view) {
  const change = view.lastChange;
  const rows = [
    ["Target", view.target ?? "none"],
    ["Owner", view.owner],
    ["Route", view.takesOver ? `${view.route}; the activators are endpoints now` : view.route],
    ["Phase", view.phase ?? "unknown"],
    ["Replicas wanted", String(view.replicas.wanted ?? "unknown")],
    ["Replicas current", String(view.replicas.present ?? "unknown")],
    ["Pods ready", String(view.replicas.ready)],
    [
      "Last change",
      change
        ? `${change.before} → ${change.after} at ${moment(new Date(change.at), new Date())}: ${change.sentence}`
        : "none by this scaler",
    ],
    ["Savings", view.savings.sentence],
  ];
  const pairs = rows.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]);
  return panel("Scaling", "scaling-name", element("dl", { class: "facts" }, ...pairs));
}

/** @param {Service} view */
function activators({ load }) {
  const rows = [
    ["Now", loadText(load.current)],
    ["Mean of 60 s", load.stable.toFixed(2)],
    ["Mean of 6 s", load.panic.toFixed(2)],
    ...Object.entries(load.byActivator).map(([name, value]) => [`${name}, last report`, loadText(value)]),
  ];
  const pairs = rows.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]);
  return panel(
    "Load: requests in flight or queued",
    "load-name",
    element("dl", { class: "facts" }, ...pairs),
  );
}
