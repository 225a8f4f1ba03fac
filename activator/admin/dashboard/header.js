// @ts-check
/** The header: the name of the activator, the state of the connection, and the problems. */

import { ConnectionSign, drawProblems, showPill } from "./connection.js";
import { byId, setAttr, setText } from "./dom.js";
import { clockAt, counted, seconds } from "./format.js";
import { notReady, withoutEffect } from "./words.js";

/** @typedef {import("./store.js").Store} Store */
/** @typedef {import("./model.js").ActivatorView} ActivatorView */

/** Seconds without an event after which a watch may be stale; each has one per minute. */
const OLD = 120;
/** Milliseconds for which a restart is shown: the length of the history. */
const NEWS = 600_000;

/**
 * Return the links of an activator, each with the name of its peer. Pure.
 * @param {ActivatorView} activator
 * @returns {[string, import("./model.js").AutoscalerView][]}
 */
function links({ autoscaler, scaler }) {
  /** @type {[string, import("./model.js").AutoscalerView][]} */
  const known = [];
  if (autoscaler) known.push(["autoscaler", autoscaler]);
  if (scaler) known.push(["scaler", scaler]);
  return known;
}

/**
 * Return the problems of an activator, one sentence each. Pure.
 * @param {ActivatorView} activator
 * @param {number} later seconds since the response
 * @param {boolean} brief count unreadable files instead of naming them, and omit objects without effect
 */
export function problems(activator, later, brief = false) {
  const texts = [];
  if (!activator.ready) texts.push(`Not ready: ${notReady(activator.notReadyReason ?? "")}`);
  for (const [name, link] of links(activator)) {
    if (link.connected) continue;
    const silent =
      link.ageSeconds === null ? "" : `, silent for ${seconds(link.ageSeconds + later)}`;
    const why = link.lastError ? ` (${link.lastError})` : "";
    texts.push(`The ${name} is not connected${silent}${why}: it starts no pods.`);
  }
  for (const [kind, watch] of Object.entries(activator.watches ?? {})) {
    const age = (watch.ageSeconds ?? 0) + later;
    if (!watch.error && age <= OLD) continue;
    const why = watch.error ? ` (${watch.error})` : "";
    texts.push(`${kind}: nothing received for ${seconds(age)}${why}; the last state is in force.`);
  }
  for (const text of activator.certificateWarnings ?? []) {
    texts.push(`${text[0].toUpperCase()}${text.slice(1)}.`);
  }
  const files = Object.entries(activator.manifestErrors ?? {});
  if (brief && files.length) {
    texts.push(`Errors in ${counted(files.length, "file")} of the folder: see the overview.`);
  } else texts.push(...files.flatMap(([path, why]) => why.split("\n").map((line) => `${path}: ${line}`)));
  if (!brief) texts.push(...withoutEffect(activator.objectWarnings));
  return texts;
}

/**
 * Return the source of objects and its age, in a sentence. Pure.
 * @param {ActivatorView} activator
 * @param {number} later seconds since the response
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
  return `Watches ${kinds} of objects; each sent something within the last ${quietest}`;
}

/**
 * Return the sentence about a restarted or another activator. Pure.
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

/**
 * Return the address of the scaler's page; for the page of a Service, that of the same Service. Pure.
 * @param {string} url
 * @param {string} fragment of this page
 */
export function scalerPage(url, fragment) {
  const service = /^#\/services\/[^/]+\/[^/]+$/.test(fragment) ? fragment : "";
  return `${url.replace(/\/?$/, "/")}${service}`;
}

/** @param {string} ours the version of this page @param {string} theirs that of the activator */
function reload(ours, theirs) {
  return `This page is of activator ${ours}, but ${theirs} responds now: reload the page.`;
}

export class Header {
  /** The version of the first response, which is that of the page. */
  #version = "";
  #connection = new ConnectionSign();

  /**
   * @param {Store} store
   * @param {number} now
   * @param {boolean} brief whether the page is that of one revision
   */
  draw(store, now, brief) {
    this.#connection.draw(store.connection, now);
    const { activator } = store;
    if (activator === null) return;
    const later = Math.max(0, now - store.activatorAt) / 1000;
    setText(byId("who"), `${activator.podName} · ${activator.version}`);
    showPill(byId("ready"), activator.ready ? "good" : "bad", activator.ready ? "ready" : "not ready");
    for (const [name, link] of links(activator)) {
      const text = link.connected ? `${name} connected` : `${name} lost`;
      showPill(byId(name), link.connected ? "good" : "bad", text);
    }
    byId("scaler-page").hidden = !activator.scalerPage;
    if (activator.scalerPage) {
      setAttr(byId("scaler-page"), "href", scalerPage(activator.scalerPage, location.hash));
    }
    this.#version ||= activator.version;
    const same = this.#version === activator.version;
    const other = same ? "" : reload(this.#version, activator.version);
    const news = this.#news(store, now);
    drawProblems([...problems(activator, later, brief), news, other].filter(Boolean));
    const up = `up for ${seconds(activator.uptimeSeconds + later)}`;
    const from = source(activator, later);
    setText(byId("footer"), `activator ${activator.version} on ${activator.podName}, ${up}. ${from}`);
  }

  /** @param {Store} store @param {number} now */
  #news({ change, connection }, now) {
    if (change === null || connection.state === "lost" || now - change.began > NEWS) return "";
    return restarted(change, clockAt(change.began, now));
  }
}
