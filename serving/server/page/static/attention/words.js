/** What each word of a text counts for: the answers without it, and the exact parts of the wide path. */

import { postJson } from "../api.js";
import { pathOf } from "../catalog.js";
import { infer } from "./open_inference.js";

/** Rows of one call: the server answers others between two of them. */
const ROWS = 64;

/**
 * Ask for the answers to a text without each of its words. A model that takes tokens loses exactly one token;
 * another gets the text without one word.
 * @param call the server, the model, its signatures, the text and its tokens.
 * @param {(done: number, all: number) => void} [progress] called with counts of words.
 * @returns {Promise<import("./matrices.js").LeftOut>}
 */
export async function leaveOneOut(call, signal, progress = () => {}) {
  const labels = await labelsOf(call, signal);
  const { words, without } = leavingOut(call);
  progress(0, words.length);
  const whole = await probabilities(call, [without(-1)], signal);
  const found = new Float32Array(words.length * labels.length);
  for (let start = 0; start < words.length; start += ROWS) {
    const rows = [];
    for (let place = start; place < Math.min(words.length, start + ROWS); place += 1) rows.push(without(place));
    found.set(await probabilities(call, rows, signal), start * labels.length);
    progress(start + rows.length, words.length);
  }
  return { words, labels, whole, without: found };
}

/**
 * Ask for the n-grams of a text that the wide path weighs most.
 * @param call the server, the model, its signatures, the text and its tokens.
 * @returns {Promise<import("./matrices.js").Contributions>}
 */
export async function contributions(call, signal) {
  const asked =
    call.textPair === undefined
      ? [{ name: "text", datatype: "BYTES", shape: [1], data: [call.text] }]
      : tensorsOfPairs([[call.text, call.textPair]]);
  const [labels, answer] = await Promise.all([
    labelsOf(call, signal),
    infer(call.model, call.version, "contributions", asked, signal),
  ]);
  // Padding, where the server has answered longer texts in the same batch.
  const ngrams = answer.strings("ngrams").filter((name) => name);
  return { ngrams, kinds: answer.strings("kinds"), labels, logits: answer.numbers("logits", Float32Array) };
}

/** Return what a model's tokens are to a reader: "letter" if each is one character, else "word". */
export function unitOf({ signatures, tokens }) {
  const isLetters = signatures.tokens && tokens?.length && tokens.every((token) => [...token].length === 1);
  return isLetters ? "letter" : "word";
}

function leavingOut({ text, textPair, tokens, signatures }) {
  if (textPair !== undefined) return byWordOfEither(text, textPair);
  return signatures.tokens ? byToken(tokens) : byWord(text);
}

/** Return the words of both texts of a pair, and the function that leaves one out of the text that has it. */
function byWordOfEither(first, second) {
  const [one, other] = [byWord(first), byWord(second)];
  const count = one.words.length;
  const without = (place) =>
    place < count ? [one.without(place), second] : [first, other.without(place - count)];
  return { words: [...one.words, ...other.words], without };
}

/** Return the inputs of a model of pairs for rows of two texts. */
export function tensorsOfPairs(rows) {
  return ["text", "text_pair"].map((name, place) => ({
    name,
    datatype: "BYTES",
    shape: [rows.length],
    data: rows.map((row) => row[place]),
  }));
}

function byToken(tokens) {
  return { words: tokens, without: (place) => tokens.filter((_, other) => other !== place) };
}

/**
 * Return the words of a text and the function that leaves one out.
 * @param {string} text
 */
export function byWord(text) {
  const parts = [...new Intl.Segmenter(undefined, { granularity: "word" }).segment(text)];
  const words = parts.filter((part) => part.segment.trim());
  const without = (place) => {
    const word = words[place];
    return word ? text.slice(0, word.index) + text.slice(word.index + word.segment.length) : text;
  };
  return { words: words.map((part) => part.segment), without };
}

/** Return the labels in the order of the probabilities. */
async function labelsOf({ model, version, text, textPair }, signal) {
  const example = textPair === undefined ? { text } : { text, text_pair: textPair };
  const body = { signature_name: "classify", examples: [example] };
  const answer = await postJson(`${pathOf({ model, version })}:classify`, body, signal);
  return answer.results[0].map(([label]) => label);
}

async function probabilities({ model, version, textPair }, rows, signal) {
  if (textPair !== undefined) {
    const both = await infer(model, version, "serving_default", tensorsOfPairs(rows), signal);
    return both.numbers("probabilities", Float32Array);
  }
  const isText = typeof rows[0] === "string";
  const shape = isText ? [rows.length] : [rows.length, rows[0].length];
  const [name, signature] = isText ? ["text", "serving_default"] : ["tokens", "tokens"];
  const asked = { name, datatype: "BYTES", shape, data: rows.flat() };
  const answer = await infer(model, version, signature, [asked], signal);
  return answer.numbers("probabilities", Float32Array);
}
