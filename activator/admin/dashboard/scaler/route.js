// @ts-check
/** The fragment of the address: which page, and which part of the table. Pure. */

/** Rows of one page of the table. */
export const PAGE = 50;

const SORTS = ["attention", "name", "load", "replicas", "change"];

/**
 * @typedef {object} Route
 * @property {string | null} service NAMESPACE/NAME of the page's Service; null for the overview
 * @property {string} filter the words that a row must have
 * @property {boolean} problems only Services with a problem
 * @property {string} sort
 * @property {number} page from 0
 * @property {string} unknownPage the path of a page that does not exist; then the overview is shown
 */

/** @param {string} fragment with or without its # @returns {Route} */
export function parse(fragment) {
  const [path, query = ""] = fragment.replace(/^#/, "").split("?", 2);
  const parts = path.split("/").filter(Boolean).map(decoded);
  const asked = new URLSearchParams(query);
  const named = parts.length === 3 && parts[0] === "services";
  const sort = asked.get("sort") ?? "";
  const page = Number(asked.get("page") ?? 1) - 1;
  return {
    service: named ? `${parts[1]}/${parts[2]}` : null,
    filter: asked.get("filter") ?? "",
    problems: asked.get("show") === "problems",
    sort: SORTS.includes(sort) ? sort : SORTS[0],
    page: Number.isInteger(page) && page >= 0 && page < 1e6 ? page : 0,
    unknownPage: named ? "" : parts.join("/"),
  };
}

/** @param {Route} route @returns {string} the fragment of its table, with its # */
export function fragmentOf(route) {
  const asked = new URLSearchParams();
  if (route.filter) asked.set("filter", route.filter);
  if (route.problems) asked.set("show", "problems");
  if (route.sort !== SORTS[0]) asked.set("sort", route.sort);
  if (route.page) asked.set("page", String(route.page + 1));
  return String(asked) ? `#/?${asked}` : "#/";
}

/** @param {string} key NAMESPACE/NAME @returns {string} the fragment of its page */
export function toService(key) {
  return `#/services/${key.split("/").map(encodeURIComponent).join("/")}`;
}

/** @param {Route} route @returns {string} the path of the API for its table */
export function tablePath(route) {
  const asked = new URLSearchParams({ limit: String(PAGE), offset: String(route.page * PAGE) });
  asked.set("sort", route.sort);
  if (route.filter) asked.set("filter", route.filter);
  if (route.problems) asked.set("show", "problems");
  return `api/v1/services?${asked}`;
}

/** @param {string} key NAMESPACE/NAME @returns {string} the path of the API for a Service */
export function servicePath(key) {
  return `api/v1/services/${key.split("/").map(encodeURIComponent).join("/")}`;
}

/** @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // a % without two digits
  }
}
