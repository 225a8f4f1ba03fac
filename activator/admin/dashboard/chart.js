// @ts-check
/** Queued requests and requests in flight of the last minutes: a chart, a sentence, a table. */

import { element, setChildren, setText } from "./dom.js";
import { clock, count, counted, span } from "./format.js";
import { worded } from "./model.js";
import { peak, reachOf, sum } from "./history.js";

/** @typedef {import("./history.js").Past} Past */
/** @typedef {import("./history.js").HistoryView} HistoryView */

const HEIGHT = 200;
/** Seconds of a row of the table. */
const ROW_SECONDS = 60;

/** uPlot's format of times: hours and minutes for all distances. */
const MINUTES = [[60, "{HH}:{mm}", null, null, null, null, null, null, 1]];

/**
 * Describe a chart in a sentence. Pure.
 * @param {Past} past
 * @param {(place: number) => Date} when when a step ended
 */
export function summaryOf(past, when) {
  const [queued, inFlight] = [peak(past.queued), peak(past.inFlight)];
  const waited = queued.most
    ? `at most ${counted(queued.most, "queued request")} (${clock(when(queued.at))})`
    : "no queued request";
  const ran = inFlight.most
    ? `at most ${count(inFlight.most)} in flight`
    : "none in flight";
  const ends = Object.entries(past.outcomes)
    .map(([end, all]) => [end, sum(all)])
    .filter(([, n]) => Number(n) > 0)
    .map(([end, n]) => `${count(Number(n))} ${end}`);
  return `${waited}, ${ran}${ends.length ? `; ${ends.join(", ")}` : ""}`;
}

/**
 * Return the rows of the table: one for each minute, the newest first. Pure.
 * @param {Past} past
 * @param {number} stepSeconds
 * @param {(place: number) => Date} when
 * @returns {string[][]} end of the minute; most queued, most in flight, served, other outcomes
 */
export function rowsOf(past, stepSeconds, when) {
  const wide = Math.max(1, Math.round(ROW_SECONDS / stepSeconds));
  const rows = [];
  for (let end = past.queued.length; end > 0; end -= wide) {
    const cut = (/** @type {number[]} */ all) => all.slice(Math.max(0, end - wide), end);
    const ends = Object.entries(past.outcomes).map(([name, all]) => [name, sum(cut(all))]);
    const served = Number(ends.find(([name]) => name === "served")?.[1] ?? 0);
    const others = ends.filter(([name, n]) => name !== "served" && Number(n) > 0);
    rows.push([
      clock(when(end - 1)),
      count(peak(cut(past.queued)).most),
      count(peak(cut(past.inFlight)).most),
      count(served),
      others.map(([name, n]) => `${n} ${name}`).join(", ") || "–",
    ]);
  }
  return rows;
}

export class QueueChart {
  #none = element("p", { class: "empty" });
  #plot = element("div", { class: "plot", "aria-hidden": "true" });
  #legend = element(
    "p",
    { class: "legend" },
    element("span", { class: "key queued" }),
    "queued",
    element("span", { class: "key in-flight" }),
    "in flight",
  );
  #cursor = element("span", { class: "muted number" });
  #summary = element("p", { class: "small" });
  #rows = element("tbody");
  #table = element(
    "details",
    {},
    element("summary", {}, "As a table"),
    element(
      "table",
      { class: "plain-table" },
      element(
        "thead",
        {},
        element(
          "tr",
          {},
          ...["Minute until", "Most queued", "Most in flight", "Served", "Other outcomes"].map(
            (name) => element("th", { scope: "col" }, name),
          ),
        ),
      ),
      this.#rows,
    ),
  );
  element = element("div", {}, this.#none, this.#legend, this.#plot, this.#summary, this.#table);
  /** @type {any} an instance of uPlot */
  #chart = null;
  /** @type {Past | null | undefined} */
  #shown;
  /** @type {HistoryView | null} */
  #history = null;

  constructor() {
    this.#legend.append(this.#cursor);
    new ResizeObserver(() => this.#resize()).observe(this.#plot);
    document.addEventListener("themechange", () => this.#remake());
  }

  /** @param {Past | null} past @param {HistoryView | null} history @param {import("./model.js").RevisionView} view */
  draw(past, history, view) {
    if (past === this.#shown && history === this.#history) return;
    this.#shown = past;
    this.#history = history;
    const none = past === null || history === null;
    this.#none.hidden = !none;
    this.#plot.hidden = this.#legend.hidden = this.#summary.hidden = this.#table.hidden = none;
    if (none) {
      setText(
        this.#none,
        history ? worded(`No requests within the last ${span(reachOf(history))}.`, view) : "Loading.",
      );
      return;
    }
    const when = (/** @type {number} */ place) => new Date(this.#timeOf(place) * 1000);
    setText(this.#summary, worded(`In this time: ${summaryOf(past, when)}.`, view));
    const rows = rowsOf(past, history.stepSeconds, when).map((cells) =>
      element("tr", {}, ...cells.map((text) => element("td", {}, text))),
    );
    setChildren(this.#rows, ...rows);
    this.#plotData();
  }

  /** When a step ended, in seconds since 1970. @param {number} place */
  #timeOf(place) {
    const { time, stepSeconds } = /** @type {HistoryView} */ (this.#history);
    const steps = this.#shown?.queued.length ?? 0;
    return Date.parse(time) / 1000 - (steps - 1 - place) * stepSeconds;
  }

  /** Return the range of the time axis: the full history, even if fewer steps exist. */
  #window() {
    const { time, steps, stepSeconds } = /** @type {HistoryView} */ (this.#history);
    const end = Date.parse(time) / 1000;
    return [end - steps * stepSeconds, end];
  }

  async #plotData() {
    await library();
    const past = this.#shown;
    if (!past || !this.#history) return;
    // A step has the time of its end, so the first step needs a point for its start.
    const times = [-1, ...past.queued.keys()].map((place) => this.#timeOf(place));
    const data = [times, ...[past.queued, past.inFlight].map((all) => [all[0], ...all])];
    if (this.#chart) this.#chart.setData(data);
    else this.#make(data);
  }

  /** @param {number[][]} data */
  #make(data) {
    const { uPlot } = /** @type {any} */ (window);
    const [muted, line, wait, area, accent] = colours(
      "muted",
      "line",
      "wait",
      "wait-area",
      "accent",
    );
    const rule = { stroke: line, width: 1 };
    const axis = { stroke: muted, grid: rule, ticks: rule, font: "12px system-ui, sans-serif" };
    const each = { width: 1.5, paths: uPlot.paths.stepped({ align: -1 }), points: { show: false } };
    this.#chart = new uPlot(
      {
        width: Math.max(200, this.#plot.clientWidth),
        height: HEIGHT,
        legend: { show: false },
        cursor: { y: false, drag: { x: false, y: false } },
        scales: { x: { range: () => this.#window() }, y: { range: fromZero } },
        axes: [
          { ...axis, values: MINUTES },
          { ...axis, values: wholeNumbers, size: 44 },
        ],
        series: [
          {},
          { ...each, stroke: wait, fill: area },
          { ...each, stroke: accent, dash: [4, 3] },
        ],
        hooks: { setCursor: [(/** @type {any} */ chart) => this.#pointed(chart.cursor.idx)] },
      },
      data,
      this.#plot,
    );
  }

  /** Show the values under the pointer. @param {number | null | undefined} place */
  #pointed(place) {
    const past = this.#shown;
    if (!past || place === null || place === undefined) setText(this.#cursor, "");
    else {
      const step = Math.max(0, place - 1);
      const at = clock(new Date(this.#timeOf(step) * 1000));
      const [queued, inFlight] = [past.queued[step], past.inFlight[step]];
      setText(this.#cursor, `${at}: ${count(queued)} queued, ${count(inFlight)} in flight`);
    }
  }

  #resize() {
    const width = this.#plot.clientWidth;
    if (this.#chart && width > 0 && width !== this.#chart.width) {
      this.#chart.setSize({ width, height: HEIGHT });
    }
  }

  /** Make the chart again with the colours of the new theme. */
  #remake() {
    this.#chart?.destroy();
    this.#chart = null;
    if (this.#shown) this.#plotData();
  }
}

/** @param {string[]} names variables of style.css @returns {string[]} their present values */
function colours(...names) {
  const style = getComputedStyle(document.documentElement);
  return names.map((name) => style.getPropertyValue(`--${name}`).trim());
}

/** Return the range of the y axis: at least 0 to 4, so that one request does not fill it. @param {any} _ @param {number} __ @param {number} most */
function fromZero(_, __, most) {
  return [0, Math.max(4, most * 1.1)];
}

/** Label only whole numbers. @param {any} _ @param {number[]} values */
function wholeNumbers(_, values) {
  return values.map((value) => (Number.isInteger(value) ? count(value) : ""));
}

/** @type {Promise<void> | undefined} */
let loading;

/** Load the plotting library with the first chart; the overview does not need it. */
function library() {
  loading ??= new Promise((resolve, reject) => {
    const style = element("link", { rel: "stylesheet", href: "dashboard/vendor/uPlot.min.css" });
    const script = element("script", { src: "dashboard/vendor/uPlot.iife.min.js" });
    script.addEventListener("load", () => resolve());
    script.addEventListener("error", () => {
      loading = undefined; // the next chart tries again
      reject(new Error("uPlot"));
    });
    document.head.append(style, script);
  });
  return loading;
}
