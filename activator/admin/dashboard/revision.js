// @ts-check
/** The page of one revision: why requests wait, limits, history, pods, cold starts, events. */

import { QueueChart } from "./chart.js";
import { element, setChildren, setAttr, setText } from "./dom.js";
import { EventList } from "./event_list.js";
import { bytes, clockAt, count, counted, seconds } from "./format.js";
import { ageOf, capacityOf, failedAgo, partsOf, stateOf, unitOf, worded } from "./model.js";
import { PodTable } from "./pod_table.js";
import { Load } from "./row.js";
import { setTitle, requestsWait } from "./summary.js";
import { ColdStartList } from "./cold_starts.js";
import {
  reasonSentence,
  failedStarts,
  failure,
  forecasts,
  namesOf,
  noRevision,
  readiness,
  startsNormally,
  startText,
  whatToDo,
  withoutEffect,
} from "./words.js";

/** @typedef {import("./store.js").Known} Known */
/** @typedef {import("./store.js").Store} Store */
/** @typedef {import("./model.js").RevisionView} RevisionView */

/** @param {string} heading @param {string} id @param {...Node} children */
function section(heading, id, ...children) {
  const title = element("h2", { id }, heading);
  return element("section", { class: "panel", "aria-labelledby": id }, title, ...children);
}

export class RevisionPage {
  #back = element("a", { class: "back", href: "#/" }, "← Overview");
  #name = element("h1", { id: "name", tabindex: "-1" });
  #state = element("span", { class: "pill" });
  #missing = element("p", { class: "empty", role: "status", hidden: true });
  #waitPanel = new WaitPanel();
  #facts = new Facts();
  #chart = new QueueChart();
  #pods = new PodTable();
  #coldStarts = new ColdStartList();
  #events;
  #body;
  /** NAMESPACE/NAME of the selected revision. */
  key = "";
  /** @type {RevisionView | null} */
  #shown = null;

  /** @param {HTMLElement} into @param {() => void} changed called when the page must be drawn */
  constructor(into, changed) {
    this.#events = new EventList(changed);
    this.#body = element(
      "div",
      { class: "sections" },
      this.#waitPanel.element,
      section("Limits and use", "facts", this.#facts.element),
      section("Queue over time", "chart", this.#chart.element),
      section("Pods", "pods", this.#pods.element),
      section("Cold starts", "cold-starts", this.#coldStarts.element),
      section("Events", "events", this.#events.element),
    );
    const top = element("div", { class: "title" }, this.#name, this.#state);
    setChildren(into, this.#back, top, this.#missing, this.#body);
  }

  /**
   * Select a revision.
   * @param {string} key NAMESPACE/NAME
   * @param {string} back the fragment of the overview
   */
  look(key, back) {
    setAttr(this.#back, "href", back);
    if (key === this.key) return;
    this.key = key;
    this.#shown = null;
    setText(this.#name, key);
    this.#events.look(key);
    this.#body.hidden = true;
    this.#missing.hidden = false;
    this.#state.hidden = true;
    setText(this.#missing, "Loading.");
  }

  /** @param {Store} store @param {number} now */
  draw(store, now) {
    const detail = store.detail?.key === this.key ? store.detail : null;
    const known = store.revisions.get(this.key);
    if (detail === null) return;
    const there = detail.view !== null && known !== undefined;
    this.#body.hidden = this.#state.hidden = !there;
    this.#missing.hidden = there;
    setTitle(`${this.key} – activator`, detail.view?.queued ?? 0, store);
    if (detail.view === null || known === undefined) {
      const { names } = partsOf(this.key);
      setText(this.#missing, noRevision(names, store.activator?.objectWarnings));
      return;
    }
    if (detail.view !== this.#shown) this.#drawAll(detail.view, known);
    this.#shown = detail.view;
    this.#waitPanel.draw(detail.view, store.activator?.manifests?.folder ?? null);
    const current = { ...known, view: detail.view, at: detail.at };
    this.#waitPanel.drawAge(current, now);
    this.#coldStarts.draw(detail.view, ageOf(current, now));
    this.#chart.draw(known.past, store.history, detail.view);
    this.#events.draw(store.events, detail.view);
  }

  /** @param {RevisionView} view @param {Known} known */
  #drawAll(view, known) {
    const failed = known.rank.now === "failing" && known.recent.errors > 0;
    setText(this.#state, failed ? `${unitOf(view)}s failed lately` : stateOf(view));
    this.#state.className = `pill ${colourOf(view, known.rank.now)}`;
    this.#facts.draw(view);
    this.#pods.draw(view);
  }
}

/** @param {RevisionView} view @param {import("./attention.js").Level} level */
function colourOf(view, level) {
  if (level === "waiting") return "wait";
  if (level === "failing") return "bad";
  return view.pods.some((pod) => pod.usable) || view.clusterIP?.usable ? "good" : "";
}

/** The panel that explains why requests wait, or why a new one would wait, with steps to take. */
class WaitPanel {
  #sentence = element("p", { class: "sentence" });
  #why = element("p", { class: "because" });
  #todo = element("div", { class: "todo" });
  #failed = element("p", { class: "because", hidden: true });
  #starts = element("p", { class: "because", hidden: true });
  #failedAgo = element("span", {});
  #shownFailure = "";
  #shownText = "";
  element = element("section", { class: "panel answer", "aria-label": "Why requests wait" });

  constructor() {
    this.element.append(this.#sentence, this.#why, this.#starts, this.#todo, this.#failed);
  }

  /** @param {RevisionView} view */
  #drawFailed({ lastFailure: last }) {
    this.#failed.hidden = !last;
    const text = last ? failure(last) : "";
    if (!last || text === this.#shownFailure) return;
    this.#shownFailure = text;
    const page = reasonPage(last.reason);
    setChildren(this.#failed, "The last failure, ", this.#failedAgo, ` ago: ${text}. See `, page);
  }

  /** @param {RevisionView} view @param {string | null} folder */
  draw(view, folder) {
    const reason = view.reason ?? view.nextReason ?? null;
    const detail = view.reason ? view.reasonDetail : view.nextReasonDetail;
    this.element.classList.toggle("waits", view.queued > 0 || (view.failedStarts ?? 0) > 0);
    const starts = [failedStarts(view), startsNormally(view)];
    const text = JSON.stringify([view.queued > 0, reason, detail, folder, view.deleted, starts]);
    if (text === this.#shownText) return; // keep the selection of a command that the reader copies
    this.#shownText = text;
    setText(this.#starts, failedStarts(view));
    this.#starts.hidden = !failedStarts(view);
    const would = view.queued ? "" : `A new ${unitOf(view)} would wait. `;
    if (reason === null && view.deleted)
      setChildren(this.#why, `The ${namesOf([{ view }])[0]} was deleted: a new ${unitOf(view)} would get ${unitOf(view) === "request" ? "404" : "no pod"}.`);
    else if (reason === null) setChildren(this.#why, `A new ${unitOf(view)} would go to a pod at once.`);
    else setChildren(this.#why, element("code", {}, reason), ` ${would}${worded(reasonSentence(reason, detail, view.kind), view)}`);
    const lines = reason === null ? [] : whatToDo(reason, view, folder);
    const made = lines.map(({ text, command }) =>
      command
        ? element("pre", { tabindex: "0" }, element("code", {}, text))
        : element("p", {}, worded(text, view)),
    );
    const page = element(
      "p",
      { class: "small muted" },
      "See ",
      reason !== null && reasonPage(reason),
    );
    setChildren(this.#todo, ...made, reason !== null && page);
  }

  /** @param {Known} known @param {number} now */
  drawAge({ view, at, rank }, now) {
    this.#drawFailed(view);
    if (view.lastFailure) setText(this.#failedAgo, seconds(failedAgo({ view, at }, now)));
    const start = startText(view, Math.max(0, now - at) / 1000);
    if (!view.queued) {
      setText(this.#sentence, `No ${unitOf(view)} waits.${start}`);
      return;
    }
    const since = clockAt(rank.since, now);
    const age = seconds(ageOf({ view, at }, now));
    setText(
      this.#sentence,
      `${requestsWait(view.queued, unitOf(view))}, the first for ${age}; the queue began at ${since}.${start}`,
    );
  }
}

/** @param {string} reason @returns {Element} a link to its page, which this activator serves */
function reasonPage(reason) {
  return element("a", { href: `reasons/${reason}` }, `activator reason ${reason}`);
}

/** Limits of a revision, and their use. */
class Facts {
  #load = new Load();
  element = element("dl", { class: "facts" });
  #shownText = "";

  /** @param {RevisionView} view */
  draw(view) {
    const facts = factsOf(view);
    this.#load.draw(view.inFlight, capacityOf(view));
    const text = JSON.stringify(facts);
    if (text === this.#shownText) return;
    this.#shownText = text;
    const parts = facts.flatMap(([name, text]) => [
      element("dt", {}, name),
      element("dd", {}, text, name === "In flight" && this.#load.element),
    ]);
    setChildren(this.element, ...parts);
  }
}

/**
 * Return the facts of a revision: name and text. Pure.
 * @param {RevisionView} view
 * @returns {[string, string][]}
 */
export function factsOf(view) {
  const most = capacityOf(view);
  const held = view.heldBytes ? `, ${bytes(view.heldBytes)} in memory` : "";
  /** @type {[string, string][]} */
  const facts = [
    ["Queue", `${count(view.queued)} of at most ${count(view.queueDepth)}${held}`],
    ["In flight", `${count(view.inFlight)} of ${most === Infinity ? "any number" : count(most)}`],
    ["Capacity", worded(view.capacityBreakdown?.sentence ?? "", view)],
    ["Errors", failuresOf(view.failures)],
    ["Forecast", forecasts(view).join("; ")],
    ["A pod is usable if", readiness(view.readinessRule)],
    ["Load balancing", balancing(view)],
    ["Sticky", sticky(view.sticky)],
    ["Adaptive limit", adaptive(view)],
    ...orderOf(view),
    ...wakingOf(view),
    ["Waiting clients", waitingClients(view.whileWaiting)],
    ["Profile", view.profile ?? ""],
    [unitOf(view) === "request" ? "Requests" : "Connections", `${view.protocol}, ${timeOut(view)}${afterWait(view)}`],
    ["Own share", shareOf(view)],
    ["Warnings", withoutEffect(view.objectWarnings).join("; ")],
  ];
  return facts.filter(([, text]) => text);
}

/** @param {RevisionView["failures"]} failures */
function failuresOf(failures) {
  const text = Object.entries(failures ?? {}).map(([reason, n]) => `${count(n)} ${reason}`);
  return text.length ? `${text.join(", ")}, since the start` : "";
}

/** @param {RevisionView} view */
function balancing({ loadBalancing, hashKey }) {
  return hashKey ? `${loadBalancing} by ${hashKey}` : (loadBalancing ?? "");
}

/** @param {RevisionView["sticky"]} view */
function sticky(view) {
  if (!view) return "";
  const counts = [`${count(view.kept)} kept`, `${count(view.hashed)} hashed`];
  counts.push(`${count(view.overflowed)} overflowed`, `${count(view.waited)} waited`);
  return `by ${view.key}, overflow ${view.overflow}: ${counts.join(", ")}`;
}

/** @param {RevisionView} view */
function adaptive({ adaptiveConcurrency, pods }) {
  if ((adaptiveConcurrency ?? "off") === "off") return "";
  const limits = pods.map((pod) => pod.adaptiveLimit ?? 0).filter((limit) => limit);
  const sum = limits.reduce((all, limit) => all + limit, 0);
  const applied = adaptiveConcurrency === "on" ? "" : ", not applied";
  return `${count(sum)} requests in flight at ${count(limits.length)} pods${applied}`;
}

/**
 * @typedef {object} QueueOrder
 * @property {string | null} priority
 * @property {Record<string, number> | null} queuedByClass
 * @property {string | null} fairBy
 * @property {number} flows
 * @property {{flow: string, queued: number}[]} largestFlows
 */

/** @param {RevisionView} view */
function orderOf({ queueOrder: order }) {
  if (!order) return [];
  const { priority, queuedByClass: classes, fairBy, flows, largestFlows } = order;
  const counts = Object.entries(classes ?? {}).map(([name, count]) => `${count} ${name}`);
  return [
    ["Classes", priority && `${priority} by default; queued: ${counts.join(", ")}`],
    ["Fair by", fairBy && `${fairBy}, ${counted(flows, "flow")}`],
    ["Largest flows", largestFlows.map(({ flow, queued }) => `${flow}: ${queued}`).join("; ")],
  ];
}

/** @param {RevisionView} view @returns {[string, string][]} */
function wakingOf({ keptAwakeBy = [], wakeRules: rules, authorization: server }) {
  const agents = keptAwakeBy.map((each) => `${each.agent}, ${counted(each.requestsPerMinute, "request")} a minute`);
  const texts = Object.entries(rules ?? {}).map(([name, value]) => value?.length && `${RULES[name]} ${value}`);
  const asked = `${server?.always ? "each request" : "requests that would wait"}, by ${server?.url}`;
  return [
    ["Kept awake by", agents.join("; ")],
    ["Wake rules", texts.filter(Boolean).join("; ")],
    ["Asleep status", String(rules?.asleepStatus ?? "")],
    ["Authorization", server ? asked : ""],
  ];
}

/** @type {Record<string, string>} */
const RULES = { methods: "only by", notUserAgents: "not by", notPaths: "not to", requiredHeader: "only with" };

/** @param {RevisionView["whileWaiting"]} view */
function waitingClients(view) {
  if (!view) return "";
  const counts = Object.entries(view.queuedByMode).map(([mode, n]) => `${count(n)} ${mode}`);
  const left = view.leaseSeconds ? `; clients are expected back within ${seconds(view.leaseSeconds)}` : "";
  return `${view.modes.join(", else ")}; queued: ${counts.join(", ")}${left}`;
}

/** @param {RevisionView} view */
function afterWait({ waitSeconds }) {
  return waitSeconds ? `, after a wait of at most ${seconds(waitSeconds)}` : "";
}

/** @param {RevisionView} view */
function timeOut({ kind, protocol, timeoutSeconds }) {
  if (kind === undefined || kind === "revision") return `${seconds(timeoutSeconds)} at most`;
  if (protocol === "tcp") return timeoutSeconds ? `${seconds(timeoutSeconds)} of waiting at most` : "no time-out";
  return timeoutSeconds ? `at most ${seconds(timeoutSeconds)} to the first byte` : "no time-out";
}

/** @param {RevisionView} view */
function shareOf({ activatorIndex, activatorCount }) {
  if (activatorCount < 2) return "";
  if (activatorIndex < 0) return `none: this activator is not one of ${counted(activatorCount, "activator")}`;
  return `${activatorIndex + 1} of ${activatorCount}`;
}
