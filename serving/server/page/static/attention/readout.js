/** The same in words and numbers: what is shown, the scale, and the largest weights. */

import { pixels, weightScale } from "./colours.js";
import { element } from "../dom.js";
import { top } from "./matrices.js";
import { cellCanvas } from "./scene.js";
import { visible } from "./token_lines.js";

/** Weights that are listed. */
const LISTED = 10;

/** What attention shows and what it does not. */
export const SENTENCES = [
  "Attention weights show from which positions a head read, and how much.",
  "They do not show why the model answered as it did: other weights can give the same answer " +
    "(Jain and Wallace 2019; Wiegreffe and Pinter 2019).",
];

/** Where the two sequences stand, of attention from an answer to a text. */
export const ALIGNED = "Pieces of the answer stand on the left, those of the text on the right or above.";

/** The parts beside a view. */
export class Readout {
  constructor() {
    this.title = element("h3", { class: "attention-title" });
    this.least = element("span", { text: "0" });
    this.most = element("span");
    this.ramp = element("canvas", { width: 160, height: 12, "aria-hidden": "true" });
    this.legend = element("p", { class: "attention-legend" }, [this.least, this.ramp, this.most]);
    this.status = element("p", { class: "attention-status", "aria-live": "polite" });
    this.list = element("ol", { class: "attention-top" });
    this.below = element("div", { class: "attention-below" }, [this.legend, this.status, this.list]);
  }

  /** @param {boolean} isMatrix true if colours are scaled over the whole matrix. */
  show(seen, explanation, isMatrix) {
    this.title.textContent = titleOf(seen, explanation);
    this.most.textContent = weight(isMatrix ? seen.mostOfAll : seen.most);
    const steps = Array.from({ length: 160 }, (_, step) => step / 159);
    const painted = pixels(weightScale(seen.dark), steps, (at) => scaled(at, seen.state));
    const ramp = cellCanvas({ kind: "cells", columns: 160, rows: 1, pixels: painted });
    this.ramp.getContext("2d").drawImage(ramp, 0, 0, 160, 12);
    this.list.replaceChildren(...topRows(seen, explanation).map(([name, value]) => item(name, value)));
  }

  /** @param {boolean} aloud false for what only the pointer passes over. */
  say(text, aloud) {
    this.status.setAttribute("aria-live", aloud ? "polite" : "off");
    this.status.textContent = text;
  }
}

/** Return the names and values of the largest weights. @returns {[string, string][]} */
export function topRows(seen, explanation) {
  const places = top(seen.values, LISTED).filter((place) => seen.values[place] > 0);
  return places.map((place) => [visible(explanation.tokens[place] ?? ""), weight(seen.values[place])]);
}

/** Return a weight as it is written. @param {number} value */
export function weight(value) {
  return value && value < 0.001 ? value.toExponential(1) : value.toFixed(3);
}

/** Return the place of a share of the largest weight on the scale of colours. */
export function scaled(share, { scale }) {
  return scale === "root" ? Math.sqrt(Math.max(0, share)) : share;
}

/** Return what a view shows, as a title. */
export function titleOf({ state, token }, { tokens, queries }) {
  const { source, layer, head, base, direction } = state;
  const whole = { all: "All layers and heads", rollout: "Attention rollout" };
  const part = source === "head" ? `Layer ${layer + 1}, head ${head + 1}` : `Layer ${layer + 1}, all heads`;
  const of = whole[source] ?? part;
  if (queries && token === null) return `${of}: all pieces of the answer`;
  if (queries) return `${of}: what “${visible(queries[token] ?? "")}” was written from`;
  if (token !== null) {
    const name = visible(tokens[token] ?? "");
    return `${of}: what ${direction === "from" ? `“${name}” attends to` : `attends to “${name}”`}`;
  }
  if (base !== "average") return `Pooling, hop ${Number(base) + 1}`;
  return `${of}: what all attend to, on average`;
}

function item(name, value) {
  return element("li", {}, [element("bdi", { text: name }), element("span", { text: value })]);
}
