/**
 * Calls of the Open Inference Protocol with tensors in binary: no number is written out and parsed again.
 *
 * Reference: docs/protocol/extension_binary_data.md of triton-inference-server/server.
 */

import { call } from "../api.js";

const JSON_LENGTH = "Inference-Header-Content-Length";
const OCTETS = "application/octet-stream";

/**
 * @typedef {object} Tensor an input.
 * @property {string} name
 * @property {"BYTES" | "FP32"} datatype
 * @property {number[]} shape
 * @property {string[] | Float32Array | Uint8Array} data bytes are one string.
 */

/** The answer to a call: outputs are read from its bytes when they are needed, and only the part needed. */
export class Answer {
  /**
   * @param {ArrayBuffer} buffer
   * @param {number} jsonLength bytes of the JSON object before the tensors.
   */
  constructor(buffer, jsonLength) {
    this.buffer = buffer;
    const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 0, jsonLength)));
    this.outputs = new Map();
    let start = jsonLength;
    for (const { name, datatype, shape, parameters } of header.outputs) {
      this.outputs.set(name, { datatype, shape, start, size: parameters.binary_data_size });
      start += parameters.binary_data_size;
    }
  }

  shape(name) {
    return this.outputs.get(name)?.shape;
  }

  /**
   * Return values of an output, four bytes each, in a copy: they may stand at any byte of the answer.
   * @param {string} name
   * @param {Float32ArrayConstructor | Int32ArrayConstructor} type
   * @param {number} [first] of the values.
   * @param {number} [count]
   * @returns {any} undefined if there is no such output.
   */
  numbers(name, type, first = 0, count) {
    const output = this.outputs.get(name);
    if (!output) return undefined;
    const start = output.start + 4 * first;
    const end = count === undefined ? output.start + output.size : start + 4 * count;
    return new type(this.buffer.slice(start, end));
  }

  strings(name) {
    const output = this.outputs.get(name);
    if (!output) return undefined;
    const view = new DataView(this.buffer, output.start, output.size);
    const found = [];
    const decoder = new TextDecoder();
    for (let place = 0; place < output.size; ) {
      const length = view.getUint32(place, true);
      found.push(decoder.decode(new Uint8Array(this.buffer, output.start + place + 4, length)));
      place += 4 + length;
    }
    return found;
  }
}

/**
 * Ask a model.
 * @param {string} model
 * @param {string | number | null} version null for the server's choice.
 * @param {string} signature
 * @param {Tensor[]} inputs
 * @param {AbortSignal} [signal]
 * @returns {Promise<Answer>}
 */
export async function infer(model, version, signature, inputs, signal) {
  const versions = version ? `/versions/${encodeURIComponent(version)}` : "";
  const path = `v2/models/${encodeURIComponent(model)}${versions}/infer`;
  const parts = inputs.flatMap(({ data }) => binary(data));
  const header = JSON.stringify({
    parameters: { signature_name: signature, binary_data_output: true },
    inputs: inputs.map(written),
  });
  const bytes = new TextEncoder().encode(header);
  const options = {
    method: "POST",
    headers: { [JSON_LENGTH]: String(bytes.length), "Content-Type": OCTETS },
    body: new Blob([bytes, ...parts]),
    signal,
  };
  const answer = await call(path, options, (response) => response.arrayBuffer());
  return new Answer(answer.body, Number(answer.headers.get(JSON_LENGTH)));
}

function written({ name, datatype, shape, data }) {
  const size = binary(data).reduce((sum, part) => sum + part.byteLength, 0);
  if (size) return { name, datatype, shape, parameters: { binary_data_size: size } };
  return { name, datatype, shape, data: Array.from(data) };
}

/** Return a tensor's values in binary, one part after the other; none for those that stand in JSON. */
function binary(data) {
  if (data instanceof Float32Array) return [data];
  // A string is its length and then its bytes.
  return data instanceof Uint8Array ? [Uint32Array.of(data.length), data] : [];
}
