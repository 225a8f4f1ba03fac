// @ts-check
/** The state of the scaler itself: leader, activators, unusable objects, sums. */

import { drawProblems, showPill } from "../connection.js";
import { byId, element, setAttr, setChildren, setText } from "../dom.js";
import { count, counted, seconds } from "../format.js";
import { activatorText, headlineText, leaderCommand, leaderText, loadText, problemsOf } from "./words.js";

/** @typedef {import("./words.js").Scaler} Scaler */
/** @typedef {import("./words.js").Summary} Summary */

const TILES = ["Services", "Awake", "Starting", "Asleep", "Load"];

export class State {
  /** @type {Record<string, HTMLElement>} */
  #numbers = {};

  constructor() {
    for (const name of TILES) this.#numbers[name] = element("dd", { class: "number" });
    const tiles = TILES.map((name) =>
      element("div", { class: "tile" }, element("dt", {}, name), this.#numbers[name]),
    );
    setChildren(byId("tiles"), ...tiles);
  }

  /**
   * @param {Scaler} scaler
   * @param {Summary | null} summary
   * @param {number} later seconds since the response
   * @param {boolean} lost whether the state is old
   */
  draw(scaler, summary, later, lost) {
    const { leader } = scaler;
    const reporting = scaler.activators.filter((one) => one.connected).length;
    setText(byId("who"), `${leader.pod} · ${scaler.version}`);
    showPill(byId("leader"), leader.leads ? "good" : "wait", leader.leads ? "leads" : "does not lead");
    showPill(byId("reports"), reporting ? "good" : leader.leads ? "bad" : "wait", `${counted(reporting, "activator")} connected`);
    drawProblems(problemsOf(scaler));
    const link = byId("dashboard");
    link.hidden = scaler.dashboard === null;
    setAttr(link, "href", scaler.dashboard);
    setText(byId("headline"), `${lost ? "Last known: " : ""}${headlineText(leader, summary)}`);
    const command = leaderCommand(scaler);
    setText(byId("subline"), command ? `${leaderText(scaler)} To reach it: ${command}` : leaderText(scaler));
    setText(byId("footer"), `activator ${scaler.version} on ${leader.pod}, up for ${seconds(scaler.uptimeSeconds + later)}`);
    this.#drawTiles(summary);
    drawList("activators", scaler.activators.map((one) => activatorText(one, later)), none(scaler));
    const objects = scaler.objects.map(objectText);
    const more = scaler.objectsTotal - objects.length;
    drawList("objects", more ? [...objects, `and ${counted(more, "more object")}`] : objects, "None.");
  }

  /** @param {Summary | null} summary */
  #drawTiles(summary) {
    if (summary === null) return;
    const { phases } = summary;
    setText(this.#numbers.Services, count(summary.services));
    setText(this.#numbers.Awake, count((phases.awake ?? 0) + (phases.closing ?? 0)));
    setText(this.#numbers.Starting, count(phases.starting ?? 0));
    setText(this.#numbers.Asleep, count(phases.asleep ?? 0));
    setText(this.#numbers.Load, loadText(summary.load));
  }
}

/** @param {Scaler["objects"][number]} one */
function objectText({ kind, namespace, name, problem }) {
  const prefix = `${kind} ${namespace}/${name}: `;
  return problem.startsWith(prefix) ? problem : prefix + problem;
}

/** @param {Scaler} scaler */
function none({ leader }) {
  return leader.leads ? "None." : "None: the activators report to the leader.";
}

/** @param {string} id @param {string[]} texts @param {string} empty */
function drawList(id, texts, empty) {
  const list = byId(id);
  const wanted = texts.length ? texts : [empty];
  if (wanted.length === list.children.length) {
    wanted.forEach((text, place) => setText(list.children[place], text));
  } else setChildren(list, ...wanted.map((text) => element("li", {}, text)));
}
