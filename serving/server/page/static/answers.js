// Answers as a person reads them: what the outputs of a signature say of each row.

import { writeExact } from "./exact_json.js";
import { isOfSpans, spansOf } from "./spans.js";

/**
 * @typedef {Object} RowAnswer
 * @property {"classes"|"tokens"|"spans"|"written"|"numbers"|"other"} kind
 * @property {string} summary in a few characters: the label, or the numbers; of a written text all of it
 * @property {number|null} score of the label, in [0, 1]
 * @property {string[]} [names] of all classes, in the order of `scores`
 * @property {number[]} [scores]
 * @property {string[]} [chosen] the labels of a model that gives any number of them
 * @property {{token: string, label: string, score: number}[]} [tokens]
 * @property {string} [text] that was asked, of spans
 * @property {{text: string, label: string, start: number, end: number, score: number}[]} [spans]
 * @property {number|null} [mean] log probability of the pieces of a written text
 * @property {boolean} [isCut] true if the bound of pieces came before the end of a written text
 * @property {{text: string, score: number|null}[]} [candidates] of a written text, the best first
 * @property {any} [numbers] a number, a BigInt, or lists of them; by name if they have names
 * @property {any} raw the outputs of the row, as the server wrote them
 */

/**
 * Read the answer to a call: an answer for each row.
 * @param {any} answer of the server
 * @param {import("./signatures.js").Signature} signature that was asked
 * @param {any} card of the model, or null: its labels in the order of the classes, or names of its scores
 * @param {string[][]|null} tokens of each row, for a model that labels them
 * @param {string[]|null} texts of the rows, for a model that finds spans in them
 * @returns {RowAnswer[]}
 */
export function readAnswer(answer, signature, card, tokens = null, texts = null) {
  if (answer.results)
    return answer.results.map(
      signature.method === "classify" ? (pairs) => ofPairs(pairs, card) : (value) => numeric(value, value),
    );
  const rows = answer.predictions
    ? named(answer.predictions, signature)
    : ofColumns(answer.outputs, signature);
  if (!rows) return [other(answer.outputs)];
  if (texts && isOfSpans(signature)) return rows.map((own, row) => spanned(own, texts[row]));
  return rows.map((own, row) => readRow(own, card, tokens?.[row] ?? null));
}

function named(rows, signature) {
  const [first, ...more] = Object.keys(signature.outputs);
  return more.length ? rows : rows.map((value) => ({ [first]: value }));
}

/** Return the outputs of each row; null if they are no rows. */
function ofColumns(outputs, signature) {
  const names = Object.keys(signature.outputs);
  const columns = names.length === 1 ? { [names[0]]: outputs } : outputs;
  const counts = new Set(Object.values(columns).map((column) => (Array.isArray(column) ? column.length : 0)));
  if (counts.size !== 1 || counts.has(0)) return null;
  const [count] = counts;
  return Array.from({ length: count }, (_, row) =>
    Object.fromEntries(Object.entries(columns).map(([name, column]) => [name, column[row]])),
  );
}

function ofPairs(pairs, card) {
  const [names, scores] = [pairs.map((pair) => pair[0]), pairs.map((pair) => pair[1] ?? NaN)];
  if (card?.scores) return numeric(pairs, scores, names);
  return classes({ label: names[largest(scores)], probabilities: scores }, names);
}

function readRow(own, card, tokens) {
  const labels = card?.labels ?? null;
  if (typeof own.text === "string" && typeof own.ended === "boolean") return written(own);
  if (tokens && Array.isArray(own.label)) return labelled(own, tokens);
  if (typeof own.label === "string" && isNumbers(own.probabilities)) return classes(own, labels);
  if (labels && isNumbers(own.probabilities)) {
    return classes({ ...own, label: labels[largest(own.probabilities)] }, labels);
  }
  const values = Object.values(own);
  if (values.length === 1 && areNumbers(values[0])) return numeric(own, values[0], card?.scores);
  return other(own);
}

function classes(own, labels) {
  const scores = own.probabilities.map((score) => score ?? NaN);
  const best = largest(scores);
  const names = scores.map((_, index) => labels?.[index] ?? (index === best ? own.label : `class ${index}`));
  const several = Array.isArray(own.labels) ? own.labels.filter((label) => label !== "") : undefined;
  const summary = several ? several.join(", ") || "none of the labels" : (own.label ?? names[best]);
  return { kind: "classes", summary, score: scores[best] ?? null, names, scores, chosen: several, raw: own };
}

function labelled(own, tokens) {
  const found = tokens.map((token, place) => ({
    token,
    label: own.label[place],
    score: own.score?.[place] ?? NaN,
  }));
  const marked = found.filter(({ label }) => label && label !== "O");
  const summary = marked.map(({ token, label }) => `${token} (${label})`).join(" ") || "no token has a label";
  const scores = found.map(({ score }) => score).filter(Number.isFinite);
  return {
    kind: "tokens",
    summary,
    score: scores.length ? Math.min(...scores) : null,
    tokens: found,
    raw: own,
  };
}

function spanned(own, text) {
  const spans = spansOf(own, text);
  const summary = spans.map(({ text: inside, label }) => `${inside} (${label})`).join(" ") || "no spans";
  const scores = spans.map(({ score }) => score).filter(Number.isFinite);
  return { kind: "spans", summary, score: scores.length ? Math.min(...scores) : null, text, spans, raw: own };
}

/** Read a text that the model wrote; a candidate that the search did not find has the score minus infinity, here null. */
function written(own) {
  const scores = own.candidate_scores ?? [];
  const found = (own.candidates ?? []).map((text, place) => ({ text, score: scores[place] ?? null }));
  const candidates = found.filter(({ score }) => score !== null);
  const more = { mean: own.score ?? null, isCut: !own.ended, candidates };
  return { kind: "written", summary: own.text, score: null, ...more, raw: own };
}

function numeric(own, numbers, names) {
  const flat = [numbers].flat(Infinity);
  const areNamed = names?.length === flat.length;
  const shown = flat.slice(0, 4).map((value, place) => (areNamed ? `${names[place]} ` : "") + inShort(value));
  const summary = shown.join(", ") + (flat.length > 4 ? `, … (${flat.length} numbers)` : "");
  const found = { kind: "numbers", summary, score: null, numbers, raw: own };
  return areNamed ? { ...found, names } : found;
}

/** Return a number with five digits that count; an integer, which may be a name, is whole. */
function inShort(value) {
  if (value === null) return "–";
  return typeof value === "bigint" || Number.isInteger(value) ? value : Number(value.toPrecision(5));
}

function other(raw) {
  return { kind: "other", summary: writeExact(raw).slice(0, 80), score: null, raw };
}

function largest(scores) {
  return scores.reduce((best, score, index) => (score > scores[best] ? index : best), 0);
}

function isNumbers(value) {
  return (
    Array.isArray(value) &&
    value.length > 0 &&
    value.every((each) => typeof each === "number" || each === null)
  );
}

function areNumbers(value) {
  if (typeof value === "number" || typeof value === "bigint") return true;
  return Array.isArray(value) && value.length > 0 && value.every(areNumbers);
}
