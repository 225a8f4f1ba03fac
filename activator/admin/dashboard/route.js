// @ts-check
/** What stands behind the # in the address: which page, and what of it. Pure. */

/**
 * @typedef {object} Route
 * @property {string | null} revision NAMESPACE/NAME of the page's; null is the overview
 * @property {string} filter what names have to contain
 * @property {boolean} waiting only those whose requests wait
 * @property {string} strayed what was asked for in place of the overview, and is not there
 */

/**
 * Read a fragment; what cannot be read is the overview.
 * @param {string} fragment with or without its #
 * @returns {Route}
 */
export function parse(fragment) {
  const [path, query = ""] = fragment.replace(/^#/, "").split("?", 2);
  const parts = path.split("/").filter(Boolean).map(decoded);
  const asked = new URLSearchParams(query);
  const named = parts.length === 3 && parts[0] === "revisions";
  return {
    revision: named ? `${parts[1]}/${parts[2]}` : null,
    filter: asked.get("filter") ?? "",
    waiting: asked.get("show") === "waiting",
    strayed: named ? "" : parts.join("/"),
  };
}

/** @param {Route} route @returns {string} the fragment, with its # */
export function written(route) {
  if (route.revision !== null) return toRevision(route.revision);
  const asked = new URLSearchParams();
  if (route.filter) asked.set("filter", route.filter);
  if (route.waiting) asked.set("show", "waiting");
  return String(asked) ? `#/?${asked}` : "#/";
}

/** @param {string} key NAMESPACE/NAME @returns {string} the fragment of its page */
export function toRevision(key) {
  return `#/revisions/${key.split("/").map(encodeURIComponent).join("/")}`;
}

/** @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // a % that escapes nothing
  }
}
