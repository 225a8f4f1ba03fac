// @ts-check
/** The fragment of the address: which page, and its filter. Pure. */

import { keyOfNames, partsOf } from "./model.js";

/**
 * @typedef {object} Route
 * @property {string | null} revision the key of the page's revision; null for the overview
 * @property {string} filter the words that names must contain
 * @property {boolean} waiting only revisions with queued requests
 * @property {string} unknownPage the path of a page that does not exist; then the overview is shown
 */

/**
 * Parse a fragment; an unknown one is the overview.
 * @param {string} fragment with or without its #
 * @returns {Route}
 */
export function parse(fragment) {
  const [path, query = ""] = fragment.replace(/^#/, "").split("?", 2);
  const parts = path.split("/").filter(Boolean).map(decoded);
  const asked = new URLSearchParams(query);
  const named = parts.length === 3 && ["revisions", "services", "http-routes", "fallbacks"].includes(parts[0]);
  return {
    revision: named ? keyOfNames(parts[0].slice(0, -1), `${parts[1]}/${parts[2]}`) : null,
    filter: asked.get("filter") ?? "",
    waiting: asked.get("show") === "waiting",
    unknownPage: named ? "" : parts.join("/"),
  };
}

/** @param {Route} route @returns {string} the fragment, with its # */
export function fragmentOf(route) {
  if (route.revision !== null) return toRevision(route.revision);
  const asked = new URLSearchParams();
  if (route.filter) asked.set("filter", route.filter);
  if (route.waiting) asked.set("show", "waiting");
  return String(asked) ? `#/?${asked}` : "#/";
}

/** @param {string} key see `keyOf` @returns {string} the fragment of its page */
export function toRevision(key) {
  const { kind, names } = partsOf(key);
  return `#/${kind}s/${names.split("/").map(encodeURIComponent).join("/")}`;
}

/** @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // a % without two digits
  }
}
