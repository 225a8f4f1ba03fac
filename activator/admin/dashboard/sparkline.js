// @ts-check
/** The history of a queue as a small area, without axes. */

import { svgElement, setAttr } from "./dom.js";
import { counted, span } from "./format.js";
import { worded } from "./model.js";
import { peak, reachOf } from "./history.js";

const WIDTH = 120;
const HEIGHT = 24;
/** The smallest maximum of the y axis, so that one request does not fill the height. */
const LEAST_SCALE = 4;

/**
 * Return the path of the area. Pure.
 * @param {number[]} values the oldest first
 * @param {number} steps the number of steps of the full width; values are right-aligned
 * @returns {string} a path of SVG, closed along the bottom; empty if there is nothing above 0
 */
export function areaOf(values, steps) {
  const { most } = peak(values);
  if (most === 0) return "";
  const scale = (HEIGHT - 2) / Math.max(most, LEAST_SCALE);
  const wide = WIDTH / Math.max(steps, values.length);
  const left = WIDTH - values.length * wide;
  const edges = values.map((value, place) => {
    const y = value > 0 ? Math.min(HEIGHT - 2, HEIGHT - value * scale) : HEIGHT;
    return `V${y.toFixed(1)}H${(left + (place + 1) * wide).toFixed(1)}`;
  });
  return `M${left.toFixed(1)} ${HEIGHT}${edges.join("")}V${HEIGHT}Z`;
}

export class Sparkline {
  #area = svgElement("path", { class: "area" });
  #ground = svgElement("path", { class: "ground" });
  element = svgElement(
    "svg",
    {
      ...{ class: "sparkline", role: "img", viewBox: `0 0 ${WIDTH} ${HEIGHT}` },
      preserveAspectRatio: "none",
    },
    this.#ground,
    this.#area,
  );

  /**
   * @param {number[]} values
   * @param {import("./history.js").HistoryView | null} history null until it is loaded
   * @param {import("./model.js").RevisionView} [view] the revision; without it, all of them
   */
  draw(values, history, view) {
    setAttr(this.#area, "d", history === null ? "" : areaOf(values, history.steps));
    const reach = history === null ? 0 : reachOf(history);
    // No line where no history exists: a line would mean that no request was queued.
    const share = history === null ? 0 : reach / (history.steps * history.stepSeconds);
    setAttr(this.#ground, "d", `M${(WIDTH * (1 - share)).toFixed(1)} ${HEIGHT - 0.5}H${WIDTH}`);
    const { most } = peak(values);
    this.element.classList.toggle("any", most > 0);
    const text = most ? `at most ${counted(most, "queued request")}` : "no queued request";
    setAttr(this.element, "aria-label", `${view ? worded(text, view) : text} within the last ${span(reach)}`);
  }
}
