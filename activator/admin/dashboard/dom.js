// @ts-check
/**
 * Elements, found, made and changed so that a string can never become markup: text goes in as text
 * nodes, and nothing here, nor anywhere in the dashboard, uses innerHTML.
 */

const SVG = "http://www.w3.org/2000/svg";

/** @typedef {Node | string | null | undefined | false} Child */

/** @param {string} id of an element of index.html @returns {HTMLElement} */
export function found(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}

/**
 * Make an element.
 * @param {string} tag
 * @param {Record<string, string | boolean | null>} [attributes] false and null are left out
 * @param {...Child} children strings become text; null and false are left out
 * @returns {HTMLElement}
 */
export function element(tag, attributes = {}, ...children) {
  return /** @type {HTMLElement} */ (filled(document.createElement(tag), attributes, children));
}

/**
 * Make an element of SVG; otherwise as `element`.
 * @param {string} tag
 * @param {Record<string, string | boolean | null>} [attributes]
 * @param {...Child} children
 * @returns {SVGElement}
 */
export function drawn(tag, attributes = {}, ...children) {
  return /** @type {SVGElement} */ (
    filled(document.createElementNS(SVG, tag), attributes, children)
  );
}

/**
 * @param {Element} made
 * @param {Record<string, string | boolean | null>} attributes
 * @param {Child[]} children
 */
function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...present(children));
  return made;
}

/** @param {Child[]} children @returns {(Node | string)[]} */
function present(children) {
  return /** @type {(Node | string)[]} */ (
    children.filter((child) => child !== null && child !== undefined && child !== false)
  );
}

/**
 * Let an element say this and nothing else; one that says it already is left alone, so that what
 * has not changed costs no layout and is not read out again.
 * @param {Element} into
 * @param {string} text
 */
export function say(into, text) {
  if (into.textContent !== text) into.textContent = text;
}

/**
 * Set an attribute, or take it away for null; one that is so already is left alone.
 * @param {Element} of
 * @param {string} name
 * @param {string | null} value
 */
export function mark(of, name, value) {
  if (of.getAttribute(name) === value) return;
  if (value === null) of.removeAttribute(name);
  else of.setAttribute(name, value);
}

/**
 * Let these be an element's children.
 * @param {Element} into
 * @param {...Child} children
 */
export function fill(into, ...children) {
  into.replaceChildren(...present(children));
}

/**
 * Let these be an element's children in this order, moving only what is out of place: what stays
 * keeps its focus, its selection and its place on the screen.
 * @param {Element} into
 * @param {Element[]} wanted
 */
export function arrange(into, wanted) {
  const keep = new Set(wanted);
  for (const child of [...into.children]) if (!keep.has(child)) child.remove();
  wanted.forEach((node, place) => {
    const there = into.children[place];
    if (there !== node) into.insertBefore(node, there ?? null);
  });
}
