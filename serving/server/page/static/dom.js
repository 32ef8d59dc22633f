// Elements of the page. Text is always set as text: what a model or a person wrote is never read as HTML.

import { writeExact } from "./exact_json.js";

const SVG = "http://www.w3.org/2000/svg";
/** Pictures are made here: in the page, those in them would be loaded, which a policy may forbid. */
const APART = document.implementation.createHTMLDocument("");

/**
 * Create an element.
 * @param {string} name of the element
 * @param {Object<string, any>} properties attributes; `text` is its text; functions under `onclick` and the like are
 *   listeners; true is an attribute without a value, and false, null and undefined are none
 * @param {...(Node|string|number|null|undefined|false|Array)} children strings and numbers become text
 * @returns {any}
 */
export function element(name, properties = {}, ...children) {
  return made(document.createElement(name), properties, children);
}

/** Create an element of SVG; the arguments are those of `element`. */
export function svgElement(name, properties = {}, ...children) {
  return made(APART.createElementNS(SVG, name), properties, children);
}

function made(node, properties, children) {
  for (const [key, value] of Object.entries(properties)) {
    if (value === false || value === null || value === undefined) continue;
    if (key === "text") node.textContent = String(value);
    else if (typeof value === "function") node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : String(value));
  }
  append(node, children);
  return node;
}

/**
 * Set sizes or places through the object model, which a strict Content-Security-Policy allows.
 * @param {Record<string, string>} styles by their names in CSS.
 */
export function styled(node, styles) {
  for (const [name, value] of Object.entries(styles)) node.style.setProperty(name, value);
}

let ids = 0;

/** Return an id that no other element has. */
export function freshId() {
  ids += 1;
  return `made-${ids}`;
}

/** Replace the children of an element. */
export function fill(parent, ...children) {
  parent.replaceChildren();
  append(parent, children);
  return parent;
}

function append(parent, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child instanceof Node ? child : String(child));
  }
}

/** Text of a person or a model: its direction is its own, and does not change that of what stands around it. */
export function foreign(text) {
  return element("bdi", { dir: "auto" }, text);
}

/** A label and its control, one above the other. */
export function field(title, control, hint = "") {
  control.id ||= freshId();
  const told = hint && element("small", { id: `${control.id}-hint` }, hint);
  if (told) control.setAttribute("aria-describedby", told.id);
  return element("div", { class: "field" }, element("label", { for: control.id }, title), control, told);
}

/** A checkbox before its label. */
export function checkbox(title, checked, onchange) {
  const box = element("input", { type: "checkbox", checked, onchange: () => onchange(box.checked) });
  return element("label", { class: "check" }, box, title);
}

/** Return text cut to some characters, with an ellipsis if some are missing. */
export function shortened(text, most) {
  const start = text.slice(0, 2 * most + 2);
  const characters = [...start];
  return characters.length > most ? `${characters.slice(0, most - 1).join("")}…` : start;
}

/** Write a share of one as percent: as many digits as tell it from 0 and 100. */
export function percent(share) {
  if (!Number.isFinite(share)) return "–";
  const digits = share > 0.9995 && share < 1 ? 2 : share >= 0.0995 || share === 0 ? 1 : 2;
  const written = (100 * share).toFixed(digits);
  if (Number(written) === 0 && share > 0) return "<0.01 %";
  if (Number(written) === 100 && share < 1) return ">99.99 %";
  return `${written} %`;
}

/** Write a number of some digits. */
export function number(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (typeof value === "bigint") return value.toLocaleString("en");
  if (typeof value !== "number") return String(value);
  return Number.isInteger(value) ? value.toLocaleString("en") : String(Number(value.toPrecision(digits)));
}

/** Return a function that runs `action` once it has not been called for some milliseconds. */
export function afterPause(action, milliseconds) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(action, milliseconds);
  };
}

/** Write JSON for reading: the innermost lists take one line each. */
export function readable(value) {
  const strings = /"(?:[^"\\]|\\.)*"|\s+/g;
  const oneLine = (list) => list.replace(strings, (found) => (found.startsWith('"') ? found : " "));
  const innermost = /"(?:[^"\\]|\\.)*"|\[\s+((?:"(?:[^"\\]|\\.)*"|[^"[\]{}])*?)\s+\]/g;
  const text = writeExact(value, 1);
  return text.replace(innermost, (found, inner) => (inner === undefined ? found : `[${oneLine(inner)}]`));
}
