/** Attention weights from the server, as an explanation that the views show. */

import { getJson } from "../api.js";
import { pathOf } from "../catalog.js";
import { infer } from "./open_inference.js";
import { contributions, leaveOneOut, tensorsOfPairs, unitOf } from "./words.js";

/** @typedef {import("./matrices.js").Explanation} Explanation */

/**
 * @typedef {object} Input one row: one of these.
 * @property {string} [text]
 * @property {string} [text_pair] the second text of a row of two, beside `text`.
 * @property {string[]} [tokens]
 * @property {number[][]} [series] frames of features; null is a missing value.
 * @property {{pixels: ArrayLike<number>, height: number, width: number, channels: number}} [image]
 * @property {{bytes: Uint8Array, samples: Float32Array, rate: number}} [sound] a WAV file, and what is in it.
 */

/**
 * Ask a model for its attention weights over an input. They come in binary, all at once, and are read by head.
 * @param {string} model
 * @param {string | number | null} version
 * @param {Input | string} input a string is a text.
 * @param {AbortSignal} [signal]
 * @returns {Promise<Explanation>}
 */
export async function explain(model, version, input, signal) {
  const row = typeof input === "string" ? { text: input } : input;
  const signatures = await signaturesOf(model, version);
  if (!signatures.explain) throw new Error(`Model ${model} has no signature "explain": it shows no attention.`);
  const asked =
    row.text_pair === undefined
      ? [tensorOf(row, Object.keys(signatures.explain.inputs)[0])]
      : tensorsOfPairs([[row.text, row.text_pair]]);
  const answer = await infer(model, version, "explain", asked, signal);
  const found = { ...matricesOf(answer), ...shown(row), title: titled(model, version) };
  found.poolings = answer.numbers("pooling", Float32Array);
  found.frames = framesOf(row, answer);
  found.patches = answer.numbers("patches", Float32Array);
  found.encoders = answer.numbers("encoders", Int32Array);
  const real = (name) => answer.strings(name)?.filter((token) => token);
  const [tokens, written] = [real("tokens"), real("target_tokens")];
  if (written) return aligned(found, written, tokens);
  found.tokens = tokens ?? row.tokens ?? places(found);
  found.tokens = found.tokens.slice(0, Math.max(...found.shape));
  const call = { model, version, signatures, text: row.text, textPair: row.text_pair, tokens };
  return Object.assign(withoutPadding(found, tokens), askedAgain(call));
}

/** Return the first frame of each position and the one after its last: of a sound they are its samples. */
function framesOf({ sound }, answer) {
  const seconds = answer.numbers("seconds", Float32Array);
  if (!sound || !seconds) return answer.numbers("frames", Int32Array);
  // Padding stands behind the end, where its positions are empty.
  return Int32Array.from(seconds, (time) => Math.min(sound.samples.length, Math.round(time * sound.rate)));
}

/** Return attention from the pieces of an answer to those of a text, without the padding of both. */
function aligned(found, queries, tokens) {
  const keys = found.shape[1];
  const weights = async (layer, head) => {
    const rows = await found.weights(layer, head);
    const kept = new Float32Array(queries.length * tokens.length);
    for (let row = 0; row < queries.length; row += 1) {
      kept.set(rows.subarray(row * keys, row * keys + tokens.length), row * tokens.length);
    }
    return kept;
  };
  return { ...found, shape: [queries.length, tokens.length], weights, queries, tokens };
}

/** Return an explanation of real positions alone: the server pads rows that it answers in one batch. */
function withoutPadding(found, tokens) {
  const [queries, keys] = found.shape;
  const ends = found.frames?.filter((end, place) => place % 2 && end > found.frames[place - 1]);
  const length = tokens?.length ?? ends?.length ?? keys;
  if (length >= keys || queries !== keys) return found;
  const cut = (rows, count) => {
    const kept = new Float32Array(count * length);
    for (let row = 0; row < count; row += 1) {
      kept.set(rows.subarray(row * keys, row * keys + length), row * length);
    }
    return kept;
  };
  const weights = async (layer, head) => cut(await found.weights(layer, head), length);
  const poolings = found.poolings && cut(found.poolings, found.poolings.length / keys);
  const names = found.tokens.slice(0, length);
  return { ...found, shape: [length, length], weights, poolings, tokens: names };
}

/** Return what can be asked besides: only texts have words to leave out. */
function askedAgain(call) {
  if (call.text === undefined || !call.signatures.classify) return {};
  const asked = (signal, progress) => leaveOneOut(call, signal, progress);
  const found = { leaveOneOut: asked, unit: unitOf(call) };
  if (!call.signatures.contributions) return found;
  return { ...found, contributions: (signal) => contributions(call, signal) };
}

async function signaturesOf(model, version) {
  const answer = await getJson(`${pathOf({ model, version })}/metadata`);
  return answer.metadata.signature_def.signature_def;
}

function titled(model, version) {
  return version ? `${model}, version ${version}` : model;
}

/** @returns {import("./open_inference.js").Tensor} */
function tensorOf({ text, tokens, series, image, sound }, name) {
  if (text !== undefined) return { name, datatype: "BYTES", shape: [1], data: [text] };
  if (tokens) return { name, datatype: "BYTES", shape: [1, tokens.length], data: tokens };
  if (sound) return { name, datatype: "BYTES", shape: [1], data: sound.bytes };
  if (series) {
    const shape = [1, series.length, series[0]?.length ?? 1];
    return { name, datatype: "FP32", shape, data: flat(series) };
  }
  const { pixels, height, width, channels } = image;
  return { name, datatype: "FP32", shape: [1, height, width, channels], data: Float32Array.from(pixels) };
}

/** Return the frames of a series one after the other; null becomes NaN. */
function flat(series) {
  return Float32Array.from(series.flat(), (value) => (value === null ? NaN : value));
}

function shown({ text, tokens, series, image, sound }) {
  if (text !== undefined) return { kind: "text" };
  if (tokens) return { kind: "tokens" };
  if (series) return { kind: "series", values: flat(series), features: series[0]?.length ?? 1 };
  if (sound) return { kind: "sound", values: sound.samples, rate: sound.rate };
  return { kind: "image", values: image };
}

/** Return the sizes of the weights, and the function that reads those of one head. */
function matricesOf(answer) {
  if (answer.outputs.has("weights")) {
    const [, layers, heads, queries, keys] = answer.shape("weights");
    const size = queries * keys;
    const weights = async (layer, head) =>
      answer.numbers("weights", Float32Array, (layer * heads + head) * size, size);
    return { layers, heads, shape: [queries, keys], weights };
  }
  return separateMatrices(answer);
}

/** The same for layers that differ: those with the heads and lengths of the first one can share their views. */
function separateMatrices(answer) {
  const names = [...answer.outputs.keys()].filter((name) => /^weights_\d+$/.test(name));
  names.sort((one, other) => Number(one.slice(8)) - Number(other.slice(8)));
  const first = String(answer.shape(names[0]));
  const alike = names.filter((name) => String(answer.shape(name)) === first);
  const [, heads, queries, keys] = answer.shape(names[0]);
  const size = queries * keys;
  const weights = async (layer, head) => answer.numbers(alike[layer], Float32Array, head * size, size);
  const layersLeftOut = names.length - alike.length;
  return { layers: alike.length, heads, shape: [queries, keys], weights, layersLeftOut };
}

/** Return names of positions that are no tokens. */
function places({ kind, shape, frames, patches, rate }) {
  const count = Math.max(...shape);
  if ((kind === "series" || kind === "sound") && frames) {
    const name = rate ? timed(rate) : spanned;
    return Array.from({ length: count }, (_, place) => name(frames[2 * place], frames[2 * place + 1]));
  }
  if (kind === "image" && patches) return patchNames(patches);
  return Array.from({ length: count }, (_, place) => `position ${place + 1}`);
}

function spanned(first, end) {
  return end - first > 1 ? `frames ${first}–${end - 1}` : `frame ${first}`;
}

/** Return the function that names samples by their seconds. */
function timed(rate) {
  return (first, end) => `${(first / rate).toFixed(2)}–${(end / rate).toFixed(2)} s`;
}

/** Name patches by row and column, from those at the left edge. */
function patchNames(patches) {
  const found = [];
  let [row, column] = [0, 0];
  for (let place = 0; place < patches.length; place += 4) {
    [row, column] = patches[place + 1] === 0 ? [row + 1, 1] : [row, column + 1];
    found.push(`row ${row}, column ${column}`);
  }
  return found;
}
