// How two answers to the same row differ, in words.

import { writeExact } from "./exact_json.js";
import { number, percent } from "./dom.js";

const MOST_WORDS = 5;
const LEAST_POINTS = 0.0005; // of a score: less is not seen in the figures

/**
 * Return whether an answer is another than the first one, and sentences that say how.
 * @param {import("./answers.js").RowAnswer} first
 * @param {import("./answers.js").RowAnswer} other
 * @returns {{isOther: boolean, words: {name: string, from: string, to: string, change: string}[]}}
 */
export function differences(first, other) {
  if (first.kind !== other.kind)
    return { isOther: true, words: [change("answer", first.summary, other.summary)] };
  if (first.kind === "classes") return ofClasses(first, other);
  if (first.kind === "tokens") return ofTokens(first, other);
  if (first.kind === "spans") return ofSpans(first, other);
  if (first.kind === "written") return ofWritten(first, other);
  if (first.kind === "numbers") return ofNumbers(first, other);
  const isOther = writeExact(first.raw) !== writeExact(other.raw);
  return { isOther, words: [] };
}

function change(name, from, to, moved = "") {
  return { name, from, to, change: moved };
}

function ofClasses(first, other) {
  const [before, after] = [scoresByName(first), scoresByName(other)];
  const names = [...new Set([...before.keys(), ...after.keys()])];
  const moved = names
    .map((name) => ({ name, from: before.get(name) ?? NaN, to: after.get(name) ?? NaN }))
    .filter(({ from, to }) => !(Math.abs(from - to) < LEAST_POINTS))
    .sort((a, b) => size(b) - size(a))
    .slice(0, MOST_WORDS)
    .map(({ name, from, to }) => change(name, percent(from), percent(to), points(to - from)));
  return { isOther: first.summary !== other.summary, words: moved };
}

function scoresByName({ names, scores }) {
  return new Map(names.map((name, index) => [name, scores[index]]));
}

function size({ from, to }) {
  return Number.isFinite(from - to) ? Math.abs(from - to) : Infinity;
}

function points(share) {
  if (!Number.isFinite(share)) return "";
  return `${share > 0 ? "+" : "−"}${Math.abs(100 * share).toFixed(1)} points`;
}

function ofTokens(first, other) {
  const words = first.tokens
    .map(({ token, label }, place) => change(token, label || "–", other.tokens[place]?.label || "–"))
    .filter(({ from, to }) => from !== to);
  return { isOther: words.length > 0, words: words.slice(0, MOST_WORDS) };
}

/** Return the spans that one answer has and the other lacks, or labels otherwise. */
function ofSpans(first, other) {
  const [before, after] = [first, other].map(
    ({ spans }) => new Map(spans.map((span) => [`${span.start} ${span.end}`, span])),
  );
  const places = [...new Set([...before.keys(), ...after.keys()])];
  const words = places
    .map((place) => {
      const [from, to] = [before.get(place), after.get(place)];
      return change((from ?? to).text, from?.label ?? "–", to?.label ?? "–");
    })
    .filter(({ from, to }) => from !== to);
  return { isOther: words.length > 0, words: words.slice(0, MOST_WORDS) };
}

/** Return the two texts, if they differ, and the scores beside them, if they do. */
function ofWritten(first, other) {
  const isOther = first.summary !== other.summary;
  const words = isOther ? [change("text", first.summary, other.summary)] : [];
  if (gap(first.mean, other.mean) >= LEAST_POINTS)
    words.push(change("score", number(first.mean, 3), number(other.mean, 3)));
  return { isOther, words };
}

function ofNumbers(first, other) {
  const before = [first.numbers].flat(Infinity);
  const after = inOrderOf(first.names, other);
  if (before.length !== after.length) {
    return {
      isOther: true,
      words: [change("numbers", `${before.length} of them`, `${after.length} of them`)],
    };
  }
  const place = before.reduce(
    (most, value, index) => (gap(value, after[index]) > gap(before[most], after[most]) ? index : most),
    0,
  );
  const seen = typeof before[place] === "bigint" ? 0 : 1e-6 * Math.max(1, Math.abs(before[place]));
  const isOther = gap(before[place], after[place]) > seen;
  const which = first.names?.[place] ?? `number ${place + 1}`;
  const name = before.length > 1 ? `${which}, the furthest apart` : "number";
  return { isOther, words: isOther ? [change(name, number(before[place]), number(after[place]))] : [] };
}

/** Return numbers in the order of names, if both have the same names; else in their own. */
function inOrderOf(names, { numbers, names: own }) {
  const flat = [numbers].flat(Infinity);
  const areSame = names?.length === own?.length && names?.every((name) => own.includes(name));
  return areSame ? names.map((name) => flat[own.indexOf(name)]) : flat;
}

function gap(one, other) {
  const areLarge = typeof one === "bigint" && typeof other === "bigint";
  return Math.abs(areLarge ? Number(one - other) : Number(one) - Number(other)) || 0;
}
