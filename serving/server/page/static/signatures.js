// The signatures of a model, and the ways to ask it that follow from them.

/**
 * @typedef {{dtype: string, shape: (number|null)[]|null}} Tensor null is any size, or any number of axes
 * @typedef {{method: string, inputs: Object<string, Tensor>, outputs: Object<string, Tensor>}} Signature
 * @typedef {{kind: "text"|"tokens"|"series"|"image"|"json", signature: string, input: string, features?: number}} Way
 */

const DEFAULT = "serving_default";
const INTERNAL = "__saved_model_init_op";

/** Return the signatures in an answer of TensorFlow Serving's metadata call, by name. */
export function readSignatures(metadata) {
  const found = {};
  for (const [name, each] of Object.entries(metadata.metadata.signature_def.signature_def)) {
    if (name === INTERNAL) continue;
    const method = each.method_name.split("/").pop() || "predict";
    found[name] = { method, inputs: tensors(each.inputs), outputs: tensors(each.outputs) };
  }
  return found;
}

function tensors(infos) {
  return Object.fromEntries(Object.entries(infos).map(([name, info]) => [name, tensor(info)]));
}

function tensor({ dtype, tensor_shape: shape }) {
  const sizes = shape.unknown_rank
    ? null
    : shape.dim.map((dim) => (dim.size === "-1" ? null : Number(dim.size)));
  return { dtype: dtype.replace("DT_", "").toLowerCase(), shape: sizes };
}

/** Write a tensor's type and shape, such as "string [rows]". */
export function written({ dtype, shape }) {
  if (shape === null) return `${dtype}, any shape`;
  return `${dtype} [${shape.map((size) => size ?? "any").join(", ")}]`;
}

/**
 * Return the ways in which a person can ask a model, the best first; the last is JSON, which fits each.
 * @param {Object<string, Signature>} signatures
 * @returns {Way[]}
 */
export function waysToAsk(signatures) {
  const ways = [];
  const file = signatures.encoded && onlyInput(signatures.encoded);
  if (file?.name === "encoded" && fits(file, "string", 1)) {
    ways.push({ kind: "image", signature: "encoded", input: "encoded" });
  }
  const main = signatures[DEFAULT] && onlyInput(signatures[DEFAULT]);
  if (main && fits(main, "string", 1)) ways.push({ kind: "text", signature: DEFAULT, input: main.name });
  if (main && fits(main, "string", 2)) ways.push({ kind: "tokens", signature: DEFAULT, input: main.name });
  if (main?.name === "values" && fits(main, "float", 3) && main.shape[2]) {
    ways.push({ kind: "series", signature: DEFAULT, input: main.name, features: main.shape[2] });
  }
  const first = DEFAULT in signatures ? DEFAULT : (Object.keys(signatures)[0] ?? DEFAULT);
  return [...ways, { kind: "json", signature: first, input: "" }];
}

function onlyInput({ inputs }) {
  const named = Object.entries(inputs);
  return named.length === 1 ? { name: named[0][0], ...named[0][1] } : null;
}

function fits({ dtype, shape }, kind, rank) {
  return dtype === kind && shape?.length === rank && shape.slice(0, 2).every((size) => size === null);
}
