// Spans of raw texts: read from an answer, and marked in their text.

import { element, foreign, number, percent } from "./dom.js";

/** Colours of labels; more labels take them again. */
const COLOURS = 6;
const MOST_SPANS = 1000;

/** Return true for a signature that answers with spans of characters. */
export function isOfSpans({ outputs }) {
  return ["label", "start", "end", "score", "count"].every((name) => name in outputs);
}

/**
 * Read the spans of a text. Their places count characters (code points); a string of JavaScript has units of UTF-16,
 * two for each character beyond the basic plane.
 * @param {{label: string[], start: number[], end: number[], score: number[], count: number}} own the row's outputs
 * @param {string} text
 */
export function spansOf(own, text) {
  const characters = [...text];
  return own.label.slice(0, own.count).map((label, place) => {
    const [start, end] = [own.start[place], own.end[place]];
    return { label, start, end, score: own.score[place] ?? NaN, text: characters.slice(start, end).join("") };
  });
}

/** Return the text of an answer with its spans marked, each with its label, and a list of them. */
export function markedText({ text, spans }) {
  const labels = [...new Set(spans.map(({ label }) => label))].sort();
  const shown = spans.slice(0, MOST_SPANS);
  const characters = [...text];
  const parts = [];
  let place = 0;
  for (const { label, start, end, text: inside } of shown) {
    const mark = element("mark", { class: `of-${labels.indexOf(label) % COLOURS}` }, inside, " ");
    mark.append(element("span", { class: "label" }, foreign(label)));
    parts.push(characters.slice(place, start).join(""), mark);
    place = end;
  }
  const left = spans.length - shown.length;
  return [
    element("p", { class: "marked-text", dir: "auto" }, parts, characters.slice(place).join("")),
    spans.length ? list(shown) : element("p", { class: "note" }, "No span is found in this text."),
    left > 0 && element("p", { class: "note" }, `${number(left)} more spans`),
  ];
}

function list(spans) {
  const items = spans.map(({ label, score, text }) =>
    element(
      "li",
      { class: "marked" },
      element("span", { class: "token" }, foreign(text)),
      element("span", { class: "label" }, foreign(label)),
      element("span", { class: "figure" }, percent(score)),
    ),
  );
  return element("ol", { class: "tokens", "aria-label": "Spans with their labels" }, items);
}
