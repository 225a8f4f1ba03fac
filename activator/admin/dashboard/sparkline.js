// @ts-check
/** The last minutes of a queue as a small area, without axes. */

import { drawn, mark } from "./dom.js";
import { count, span } from "./format.js";
import { peak, reachOf } from "./history.js";

const WIDTH = 120;
const HEIGHT = 24;
/** A queue that is shorter does not fill the height: one request is no crowd. */
const LEAST_SCALE = 4;

/**
 * Where the upper edge of the area goes, step by step. Pure.
 * @param {number[]} values the oldest first
 * @param {number} steps how many would fill the width; values stand at its right end
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
  #area = drawn("path", { class: "area" });
  #ground = drawn("path", { class: "ground" });
  element = drawn(
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
   * @param {import("./history.js").HistoryView | null} history null while none is known
   */
  draw(values, history) {
    mark(this.#area, "d", history === null ? "" : areaOf(values, history.steps));
    const reach = history === null ? 0 : reachOf(history);
    // Where nothing is known there is no line, which would say that nobody waited.
    const share = history === null ? 0 : reach / (history.steps * history.stepSeconds);
    mark(this.#ground, "d", `M${(WIDTH * (1 - share)).toFixed(1)} ${HEIGHT - 0.5}H${WIDTH}`);
    const { most } = peak(values);
    this.element.classList.toggle("any", most > 0);
    const told = most ? `at most ${count(most)} waited at a time` : "no request waited";
    mark(this.element, "aria-label", `${told} within the last ${span(reach)}`);
  }
}
