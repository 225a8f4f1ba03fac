// @ts-check
/** Pods as small blocks: colour, shape and letter show the kind of each. */

import { element, setChildren, setAttr } from "./dom.js";
import { count, counted } from "./format.js";
import { POD_KINDS, podsByKind } from "./model.js";

/** Most pods of one kind that are drawn one by one; for more, one block and the number. */
const ONE_BY_ONE = 8;

/**
 * Describe the blocks in words. Pure.
 * @param {import("./model.js").RevisionView} view
 */
export function podWords(view) {
  const text = [...podsByKind(view)].map(
    ([kind, pods]) => `${count(pods.length)} ${POD_KINDS[kind].words}`,
  );
  const all = [...podsByKind(view).values()].flat().length;
  return text.length ? `${counted(all, "pod")}: ${text.join(", ")}` : "no pods";
}

export class PodBlocks {
  element = element("span", { class: "pods", role: "img" });
  #shown = "";

  /** @param {import("./model.js").RevisionView} view */
  draw(view) {
    const words = podWords(view);
    if (words === this.#shown) return;
    this.#shown = words;
    setAttr(this.element, "aria-label", words);
    setAttr(this.element, "title", words);
    setChildren(this.element, ...blocks(view));
  }
}

/** Draw the legend of the letters. @param {Element} into */
export function drawLegend(into) {
  const kinds = /** @type {import("./model.js").PodKind[]} */ (Object.keys(POD_KINDS));
  setChildren(
    into,
    "Pods:",
    ...kinds.map((kind) => element("span", {}, blockOf(kind), ` ${POD_KINDS[kind].words}`)),
  );
}

/** @param {import("./model.js").RevisionView} view */
function blocks(view) {
  const groups = [...podsByKind(view)];
  if (!groups.length) return [element("span", { class: "muted" }, "–")];
  return groups.flatMap(([kind, pods]) => {
    if (pods.length <= ONE_BY_ONE) return pods.map(() => blockOf(kind));
    return [blockOf(kind), element("span", { class: "times" }, `×${count(pods.length)}`)];
  });
}

/** @param {import("./model.js").PodKind} kind */
export function blockOf(kind) {
  const names = `block ${kind.replace(" ", "-")}`;
  return element("span", { class: names, "aria-hidden": "true" }, POD_KINDS[kind].letter);
}
