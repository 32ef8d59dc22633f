/**
 * The matrices to look at: one head, averages over heads, attention rollout.
 *
 * Axes: Q (queries), K (keys), L (layers), H (heads). A matrix is a Float32Array `[Q, K]`, in rows.
 */

import { inSlices, nextTask } from "./slices.js";

/**
 * @typedef {object} Explanation attention weights over one input.
 * @property {string[]} tokens names of the positions; if there are `queries`, of the keys alone.
 * @property {string[]} [queries] names of the queries of attention to another sequence: the pieces of an answer.
 * @property {number} layers
 * @property {number} heads
 * @property {[number, number]} shape Q and K.
 * @property {"text" | "tokens" | "series" | "image" | "sound"} kind
 * @property {(layer: number, head: number) => Promise<Float32Array>} weights of one head, both counted from 0.
 * @property {any} [values] the frames of a series, Float32Array `[frames, features]`, or samples of a sound; an image's
 *   `{pixels, height, width, channels}`, with pixels from 0 to 255.
 * @property {number} [features] of a frame; 1 by default.
 * @property {number} [rate] samples a second of a sound, whose samples are its frames.
 * @property {Float32Array} [poolings] weights of attention pooling, `[hops, K]`.
 * @property {Int32Array} [frames] `[K, 2]`: the first frame of each position, and the one after its last.
 * @property {Float32Array} [patches] `[K, 4]`: top, left, bottom and right of each position, from 0 to 1.
 * @property {number[]} [encoders] the encoder of each layer, if several stand side by side.
 * @property {string} [title] of saved files.
 * @property {(signal: AbortSignal) => Promise<LeftOut>} [leaveOneOut] asks the model again, without each word.
 * @property {"letter" | "word"} [unit] what is left out at a time.
 * @property {(signal: AbortSignal) => Promise<Contributions>} [contributions] asks for the n-grams' shares.
 */

/**
 * @typedef {object} LeftOut answers without each word of a text; C is the number of labels.
 * @property {string[]} words the W words.
 * @property {string[]} labels
 * @property {Float32Array} whole probabilities of the whole text, `[C]`.
 * @property {Float32Array} without of the text without each word, `[W, C]`.
 */

/**
 * @typedef {object} Contributions the parts of the wide path's logits.
 * @property {string[]} ngrams the G n-grams with the largest parts.
 * @property {string[]} kinds "word", "pair", "gap" or "piece" of each.
 * @property {string[]} labels
 * @property {Float32Array} logits `[G, C]`.
 */

/** Matrices of an explanation, each computed once. */
export class Matrices {
  /** @param {Explanation} explanation */
  constructor(explanation) {
    this.explanation = explanation;
    this.known = new Map();
    this.stop = new AbortController();
  }

  /**
   * Return the matrix of a state's `source`, `layer` and `head`.
   * @returns {Promise<Float32Array>}
   */
  of({ source, layer, head }) {
    if (source === "head") return this.explanation.weights(layer, head);
    const key = source === "layer" ? `layer ${layer}` : source;
    const found = this.known.get(key) ?? this.#computed(source, layer);
    this.known.set(key, found);
    found.catch(() => this.known.delete(key));
    return found;
  }

  /** Stop what is computed. */
  destroy() {
    this.stop.abort();
    this.known.clear();
  }

  #computed(source, layer) {
    if (source === "layer") return this.#layerMean(layer);
    return source === "all" ? this.#mean() : this.#rollout();
  }

  async #layerMean(layer) {
    const { heads, weights } = this.explanation;
    const total = new Float32Array(this.#size);
    for (let head = 0; head < heads; head += 1) {
      await inSlices(added(total, await weights(layer, head), 1 / heads), this.stop.signal);
      await nextTask();
    }
    return total;
  }

  async #mean() {
    const { layers } = this.explanation;
    const total = new Float32Array(this.#size);
    for (let layer = 0; layer < layers; layer += 1) {
      const mean = await this.of({ source: "layer", layer, head: 0 });
      await inSlices(added(total, mean, 1 / layers), this.stop.signal);
    }
    return total;
  }

  async #rollout() {
    const groups = grouped(this.explanation);
    const total = new Float32Array(this.#size);
    for (const layers of groups) {
      let found = null;
      for (const layer of layers) {
        const mean = await this.of({ source: "layer", layer, head: 0 });
        const mixed = withResidual(mean, this.explanation.shape[0]);
        found = found ? await inSlices(product(mixed, found), this.stop.signal) : mixed;
      }
      await inSlices(added(total, found, 1 / groups.length), this.stop.signal);
    }
    return total;
  }

  get #size() {
    const [queries, keys] = this.explanation.shape;
    return queries * keys;
  }
}

/** Return the layers of each encoder, first to last. */
function grouped({ layers, encoders }) {
  const found = new Map();
  for (let layer = 0; layer < layers; layer += 1) {
    const encoder = encoders?.[layer] ?? 0;
    found.set(encoder, [...(found.get(encoder) ?? []), layer]);
  }
  return [...found.values()];
}

/** True if each layer's keys are its queries. */
export function isOfOneSequence({ shape, queries }) {
  return !queries && shape[0] === shape[1];
}

/** True if attention rollout is defined. */
export function hasRollout(explanation) {
  return isOfOneSequence(explanation) && explanation.layers > 0;
}

/**
 * Return `0.5 A + 0.5 I`, rows scaled to sum 1: the residual connection beside attention.
 * Reference: Abnar and Zuidema 2020, "Quantifying Attention Flow in Transformers", section 3.
 */
function withResidual(matrix, size) {
  const found = new Float32Array(matrix.length);
  for (let row = 0; row < size; row += 1) {
    const start = row * size;
    let sum = 1;
    for (let key = 0; key < size; key += 1) sum += matrix[start + key];
    for (let key = 0; key < size; key += 1) found[start + key] = matrix[start + key] / sum;
    found[start + row] += 1 / sum;
  }
  return found;
}

/** Multiply square matrices, one row a step. */
function* product(left, right) {
  const size = Math.sqrt(left.length);
  const found = new Float32Array(left.length);
  const sums = new Float64Array(size);
  for (let row = 0; row < size; row += 1) {
    sums.fill(0);
    for (let inner = 0; inner < size; inner += 1) {
      const weight = left[row * size + inner];
      if (!weight) continue;
      const start = inner * size;
      for (let key = 0; key < size; key += 1) sums[key] += weight * right[start + key];
    }
    found.set(sums, row * size);
    yield;
  }
  return found;
}

/** Add `matrix` times `factor` to `total`, in steps of a fraction of a millisecond. */
function* added(total, matrix, factor) {
  const step = 65_536;
  for (let start = 0; start < total.length; start += step) {
    const end = Math.min(total.length, start + step);
    for (let place = start; place < end; place += 1) total[place] += matrix[place] * factor;
    yield;
  }
}

/**
 * Return a query's weights, or the weights that a position gets from each query.
 * @param {"from" | "to"} direction "from" the token as a query, or "to" it as a key.
 */
export function line(matrix, [queries, keys], token, direction) {
  if (direction === "from") return matrix.subarray(token * keys, (token + 1) * keys);
  const found = new Float32Array(queries);
  for (let query = 0; query < queries; query += 1) found[query] = matrix[query * keys + token];
  return found;
}

/** Return the average weight that each key gets, `[K]`. */
export function received(matrix, [queries, keys]) {
  const found = new Float32Array(keys);
  for (let query = 0; query < queries; query += 1) {
    const start = query * keys;
    for (let key = 0; key < keys; key += 1) found[key] += matrix[start + key] / queries;
  }
  return found;
}

/**
 * Return the largest value of each block of a matrix: a picture of at most `side` cells a side keeps its peaks.
 * @returns {{values: Float32Array, rows: number, columns: number}}
 */
export function shrunk(matrix, [queries, keys], side) {
  const rows = Math.min(side, queries);
  const columns = Math.min(side, keys);
  const values = new Float32Array(rows * columns);
  for (let query = 0; query < queries; query += 1) {
    const row = Math.floor((query * rows) / queries) * columns;
    for (let key = 0; key < keys; key += 1) {
      const place = row + Math.floor((key * columns) / keys);
      if (matrix[query * keys + key] > values[place]) values[place] = matrix[query * keys + key];
    }
  }
  return { values, rows, columns };
}

/** Return the largest value, 0 at least. */
export function largest(values) {
  let found = 0;
  for (let place = 0; place < values.length; place += 1) if (values[place] > found) found = values[place];
  return found;
}

/** Return the places of the `count` largest values, the largest first. */
export function top(values, count) {
  const places = Array.from(values, (_, place) => place);
  return places.sort((one, other) => values[other] - values[one] || one - other).slice(0, count);
}
