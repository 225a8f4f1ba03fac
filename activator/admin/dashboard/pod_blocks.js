// @ts-check
/** Pods as small blocks: a colour, a form and a letter for what each is counted as. */

import { element, fill, mark } from "./dom.js";
import { count, counted } from "./format.js";
import { POD_KINDS, podsByKind } from "./model.js";

/** Pods of one kind that are drawn one by one; of more there is one block and the number. */
const ONE_BY_ONE = 8;

/**
 * What the blocks say, in words. Pure.
 * @param {import("./model.js").RevisionView} view
 */
export function podWords(view) {
  const told = [...podsByKind(view)].map(
    ([kind, pods]) => `${count(pods.length)} ${POD_KINDS[kind].words}`,
  );
  const all = [...podsByKind(view).values()].flat().length;
  return told.length ? `${counted(all, "pod")}: ${told.join(", ")}` : "no pods";
}

export class PodBlocks {
  element = element("span", { class: "pods", role: "img" });
  #shown = "";

  /** @param {import("./model.js").RevisionView} view */
  draw(view) {
    const words = podWords(view);
    if (words === this.#shown) return;
    this.#shown = words;
    mark(this.element, "aria-label", words);
    mark(this.element, "title", words);
    fill(this.element, ...blocks(view));
  }
}

/** What the letters mean, to stand below them. @param {Element} into */
export function drawLegend(into) {
  const kinds = /** @type {import("./model.js").PodKind[]} */ (Object.keys(POD_KINDS));
  fill(
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
