// The call that asks a target: one description, of which the page's own request and the commands to copy are made.

import { postJson } from "./api.js";
import { pathOf } from "./catalog.js";

/**
 * @typedef {{model: string, version?: string, label?: string}} Target without both, the latest version
 * @typedef {Object} Asked rows as an input gives them
 * @property {Object<string, any[]>} inputs a value for each row, by the input's name
 * @property {string[]} titles what a person recognises each row by
 * @property {(string|null)[]} words what `keras-selfattn query` takes for each row; null if no word can be it
 * @property {string[]} [files] names of the files that the values are read from
 * @typedef {{target: Target, signature: string, verb: string, path: string, body: any, asked: Asked}} Call
 */

const DEFAULT = "serving_default";
/** Rows in a request of the page: the first answers are there while the others are computed. */
export const ROWS_AT_ONCE = 64;

/**
 * Return the call for some rows.
 * @param {Target} target
 * @param {string} signature
 * @param {Asked} asked
 * @returns {Call}
 */
export function callOf(target, signature, asked) {
  return wholeCall(target, signature, "predict", { inputs: asked.inputs }, asked);
}

/** Return the call with a body as a person wrote it; `verb` is predict, classify or regress. */
export function wholeCall(target, signature, verb, body, asked) {
  const named = signature === DEFAULT ? body : { signature_name: signature, ...body };
  return { target, signature, verb, path: `${pathOf(target)}:${verb}`, body: named, asked };
}

/**
 * Ask, and give the answers to `onPart` as they come.
 * @param {Call} call
 * @param {(answer: any, rows: number, milliseconds: number) => void} onPart
 * @param {AbortSignal} signal
 */
export async function ask(call, onPart, signal) {
  for (const [body, rows] of parts(call)) {
    const started = performance.now();
    const answer = await postJson(call.path, body, signal);
    onPart(answer, rows, performance.now() - started);
  }
}

function parts({ body, asked }) {
  const rows = asked.titles.length;
  if (!asked.inputs || rows <= ROWS_AT_ONCE) return [[body, rows]];
  const found = [];
  for (let start = 0; start < rows; start += ROWS_AT_ONCE) {
    const end = Math.min(rows, start + ROWS_AT_ONCE);
    const inputs = Object.fromEntries(
      Object.entries(asked.inputs).map(([name, values]) => [name, values.slice(start, end)]),
    );
    found.push([{ ...body, inputs }, end - start]);
  }
  return found;
}
