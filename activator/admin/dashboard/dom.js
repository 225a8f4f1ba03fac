// @ts-check
/**
 * Functions to find, make and change elements. A string never becomes markup: it is inserted as a
 * text node, and no module of the dashboard uses innerHTML.
 */

const SVG = "http://www.w3.org/2000/svg";

/** @typedef {Node | string | null | undefined | false} Child */

/** @param {string} id the id of an element in index.html @returns {HTMLElement} */
export function byId(id) {
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
 * Make an SVG element; arguments as for `element`.
 * @param {string} tag
 * @param {Record<string, string | boolean | null>} [attributes]
 * @param {...Child} children
 * @returns {SVGElement}
 */
export function svgElement(tag, attributes = {}, ...children) {
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
 * Set the text of an element. An element with this text stays unchanged, so that it costs no layout
 * and screen readers do not repeat it.
 * @param {Element} into
 * @param {string} text
 */
export function setText(into, text) {
  if (into.textContent !== text) into.textContent = text;
}

/**
 * Set an attribute, or remove it for null; an equal attribute stays unchanged.
 * @param {Element} of
 * @param {string} name
 * @param {string | null} value
 */
export function setAttr(of, name, value) {
  if (of.getAttribute(name) === value) return;
  if (value === null) of.removeAttribute(name);
  else of.setAttribute(name, value);
}

/**
 * Replace an element's children.
 * @param {Element} into
 * @param {...Child} children
 */
export function setChildren(into, ...children) {
  into.replaceChildren(...present(children));
}

/**
 * Set an element's children in this order, and move only children in the wrong place. The others keep
 * focus, selection and place on the screen.
 * @param {Element} into
 * @param {Element[]} wanted
 */
export function orderChildren(into, wanted) {
  const keep = new Set(wanted);
  for (const child of [...into.children]) if (!keep.has(child)) child.remove();
  wanted.forEach((node, place) => {
    const there = into.children[place];
    if (there !== node) into.insertBefore(node, there ?? null);
  });
}
