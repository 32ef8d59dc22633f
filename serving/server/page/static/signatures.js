// The signatures of a model, as the server tells them.

/**
 * @typedef {{dtype: string, shape: (number|null)[]|null}} Tensor null is any size, or any number of axes
 * @typedef {{method: string, inputs: Object<string, Tensor>, outputs: Object<string, Tensor>}} Signature
 */

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
