// @ts-check
/** Who is shown here, how the connection to it is, and what is wrong with it. */

import { element, fill, found, say } from "./dom.js";
import { clockAt, counted, seconds } from "./format.js";
import { notReady } from "./words.js";

/** @typedef {import("./store.js").Store} Store */
/** @typedef {import("./model.js").ActivatorView} ActivatorView */

/** Seconds of silence after which what is known may be old; watches speak once a minute. */
const OLD = 120;
/** Milliseconds for which it is said that another process answers: as long as the past reaches. */
const NEWS = 600_000;

/** @param {HTMLElement} pill @param {"good" | "bad" | "wait"} kind @param {string} text */
function show(pill, kind, text) {
  say(pill, text);
  pill.hidden = false;
  pill.className = `pill ${kind}`;
}

/**
 * What is wrong with an activator, a sentence each. Pure.
 * @param {ActivatorView} activator
 * @param {number} later seconds since it was answered
 * @param {boolean} brief files that are wrong are counted and not named
 */
export function wrongs(activator, later, brief = false) {
  const told = [];
  if (!activator.ready) told.push(`Not ready: ${notReady(activator.notReadyReason ?? "")}`);
  const link = activator.autoscaler;
  if (link && !link.connected) {
    const silent =
      link.ageSeconds === null ? "" : `, silent for ${seconds(link.ageSeconds + later)}`;
    const why = link.lastError ? ` (${link.lastError})` : "";
    told.push(`The autoscaler is not connected${silent}${why}: it starts no pods.`);
  }
  for (const [kind, watch] of Object.entries(activator.watches ?? {})) {
    const age = (watch.ageSeconds ?? 0) + later;
    if (!watch.error && age <= OLD) continue;
    const why = watch.error ? ` (${watch.error})` : "";
    told.push(`${kind}: nothing received for ${seconds(age)}${why}; the last state is in force.`);
  }
  const files = Object.entries(activator.manifestErrors ?? {});
  if (brief && files.length) {
    told.push(`${counted(files.length, "file")} of the folder cannot be read: see the page of all revisions.`);
  } else told.push(...files.map(([path, why]) => `${path}: ${why}`));
  return told;
}

/**
 * Where objects come from and how fresh that is, in a sentence. Pure.
 * @param {ActivatorView} activator
 * @param {number} later seconds since it was answered
 */
export function source(activator, later) {
  if (activator.manifests) {
    const ago = seconds(activator.manifests.ageSeconds + later);
    return `Objects come from ${activator.manifests.folder}, read ${ago} ago`;
  }
  const ages = Object.values(activator.watches ?? {}).map((watch) => watch.ageSeconds ?? 0);
  if (!ages.length) return "";
  const quietest = seconds(Math.max(...ages) + later);
  const kinds = counted(ages.length, "kind");
  return `Watches ${kinds} of objects; the last event of the quietest is ${quietest} old`;
}

/**
 * That another process answers than before, and what became of what the other one held. Pure.
 * @param {import("./store.js").Change} change
 * @param {string} at when it was started
 */
export function restarted({ pod, before }, at) {
  if (pod !== before) return `Another activator responds now: ${pod} instead of ${before}.`;
  return (
    `The activator restarted at ${at}. Requests that it had in flight are lost, ` +
    "and its history begins there."
  );
}

/** @param {string} ours @param {string} theirs versions */
function reload(ours, theirs) {
  return `This page is of activator ${ours}, but ${theirs} responds now: reload the page.`;
}

export class Header {
  /** Of the activator that was seen first, from which the page came. */
  #version = "";
  #wasLost = false;
  #backUntil = 0;

  /**
   * @param {Store} store
   * @param {number} now
   * @param {boolean} brief whether the page is about one revision, and not about the folder's files
   */
  draw(store, now, brief) {
    this.#drawConnection(store, now);
    const { activator } = store;
    if (activator === null) return;
    const later = Math.max(0, now - store.activatorAt) / 1000;
    say(found("who"), `${activator.podName} · ${activator.version}`);
    show(found("ready"), activator.ready ? "good" : "bad", activator.ready ? "ready" : "not ready");
    const link = activator.autoscaler;
    if (link) {
      const text = link.connected ? "autoscaler connected" : "autoscaler lost";
      show(found("autoscaler"), link.connected ? "good" : "bad", text);
    }
    this.#version ||= activator.version;
    const same = this.#version === activator.version;
    const other = same ? "" : reload(this.#version, activator.version);
    const news = this.#news(store, now);
    this.#drawWrongs([...wrongs(activator, later, brief), news, other].filter(Boolean));
    const up = `up for ${seconds(activator.uptimeSeconds + later)}`;
    const from = source(activator, later);
    say(found("footer"), `activator ${activator.version} on ${activator.podName}, ${up}. ${from}`);
  }

  /** @param {Store} store @param {number} now */
  #news({ change, connection }, now) {
    if (change === null || connection.state === "lost" || now - change.began > NEWS) return "";
    return restarted(change, clockAt(change.began, now));
  }

  /** @param {Store} store @param {number} now */
  #drawConnection({ connection }, now) {
    const lost = connection.state === "lost";
    const since = clockAt(connection.since, now);
    if (this.#wasLost && connection.state === "live") this.#backUntil = now + 5000;
    this.#wasLost = lost;
    document.documentElement.classList.toggle("stale", lost);
    found("lost").hidden = !lost;
    if (lost) {
      const why = connection.error ? ` (${connection.error})` : "";
      say(
        found("lost"),
        `Connection lost at ${since}${why}. The page shows the state of that time; only ages continue. ` +
          "The page tries again.",
      );
      show(found("connection"), "bad", `lost since ${since}`);
    } else if (connection.state === "late") {
      show(found("connection"), "wait", `no answer since ${since}`);
    } else if (connection.state === "connecting") show(found("connection"), "wait", "connecting");
    else if (now < this.#backUntil) show(found("connection"), "good", "back, live");
    else if (connection.streaming) show(found("connection"), "good", "live");
    else show(found("connection"), "wait", "no events, asking now and then");
  }

  /** @param {string[]} told */
  #drawWrongs(told) {
    const list = found("notices");
    list.hidden = !told.length;
    // The seconds change each tick; they are not worth new elements, nor being read out again.
    const same = told.length === list.children.length;
    if (same) told.forEach((text, place) => say(list.children[place], text));
    else fill(list, ...told.map((text) => element("li", {}, text)));
  }
}
