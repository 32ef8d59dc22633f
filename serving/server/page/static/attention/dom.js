/** Elements made from code: data become text or attributes, never markup. */

const SVG = "http://www.w3.org/2000/svg";
/** Pictures are made here: in the page, those in them would be loaded, which its policy may forbid. */
const APART = document.implementation.createHTMLDocument("");

/**
 * Make an HTML element.
 * @param {string} name its tag.
 * @param {Record<string, unknown>} [attributes] `text` is its text; `on…` are listeners; null is left out.
 * @returns {any} the element.
 */
export function element(name, attributes = {}, children = []) {
  return filled(document.createElement(name), attributes, children);
}

/** Make an SVG element; the arguments are those of `element`. */
export function svgElement(name, attributes = {}, children = []) {
  return filled(APART.createElementNS(SVG, name), attributes, children);
}

/**
 * Set sizes or places through the object model, which a strict Content-Security-Policy allows.
 * @param {Record<string, string>} styles by their names in CSS.
 */
export function styled(node, styles) {
  for (const [name, value] of Object.entries(styles)) node.style.setProperty(name, value);
}

let made = 0;

/** @returns {string} an id that no other element has. */
export function freshId() {
  made += 1;
  return `attention-${made}`;
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined) continue;
    if (name === "text") node.textContent = String(value);
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, String(value));
  }
  node.append(...children);
  return node;
}
