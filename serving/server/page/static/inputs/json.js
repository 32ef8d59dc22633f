// An input for every signature: the body of the request, as JSON.

import { element, field, readable } from "../dom.js";
import { STRING_OR_NUMBER, isLargeInteger } from "../exact_json.js";
import { written } from "../signatures.js";

const NUMBERS = { string: "some text", bool: true };
const VERBS = { classify: "classify", regress: "regress" };

/**
 * @param {import("./kinds.js").Way} way
 * @param {() => void} onChange
 * @param {{signatures: Object<string, import("../signatures.js").Signature>, card: any}} described
 */
export function jsonInput(way, onChange, { signatures, card }) {
  const choice = element(
    "select",
    { onchange: begin },
    Object.keys(signatures).map((name) => element("option", { selected: name === way.signature }, name)),
  );
  const area = element("textarea", {
    rows: 10,
    dir: "ltr",
    spellcheck: "false",
    class: "code",
    oninput: onChange,
  });
  const told = element("p", { class: "note" });

  function begin() {
    const signature = signatures[choice.value];
    const inputs = Object.entries(signature.inputs).map(([name, tensor]) => `${name}: ${written(tensor)}`);
    told.textContent = `Takes ${inputs.join("; ") || "nothing"}.`;
    area.value = readable(template(signature, card?.signatures?.[choice.value]));
    onChange();
  }

  begin();
  return {
    element: element(
      "div",
      { class: "input" },
      field("Signature", choice),
      told,
      field("Body of the request", area),
    ),
    size: () => area.value.length,
    signature: () => choice.value,
    read() {
      let body;
      try {
        body = JSON.parse(area.value);
      } catch (error) {
        throw new Error(`The body is not JSON: ${error.message}`);
      }
      if (!body || typeof body !== "object" || Array.isArray(body)) {
        throw new Error('The body must be an object, such as {"inputs": …}.');
      }
      if (hasInexact(area.value)) {
        throw new Error(
          "This page cannot send integers beyond 2^53 exactly, nor numbers beyond a double. Ask with curl.",
        );
      }
      const verb = VERBS[signatures[choice.value].method] ?? "predict";
      return { body, verb, titles: ["the request"], words: [null] };
    },
    set(values) {
      area.value = readable({ inputs: values });
      onChange();
    },
  };
}

/** Return true if a number of a JSON text is another one in JavaScript. */
function hasInexact(text) {
  return [...text.matchAll(STRING_OR_NUMBER)].some(([found]) => {
    if (found.startsWith('"')) return false;
    return isLargeInteger(found) || !Number.isFinite(Number(found));
  });
}

function template({ method, inputs }, described) {
  if (method in VERBS) return { examples: [{ feature: "a text, or a number, or a list of them" }] };
  const request = described?.example?.request;
  if (request && Object.keys(inputs).every((name) => name in request)) return { inputs: request };
  return {
    inputs: Object.fromEntries(Object.entries(inputs).map(([name, tensor]) => [name, madeUp(tensor)])),
  };
}

/** Return a value of a tensor's type and shape, with 1 for each size that may be any. */
function madeUp({ dtype, shape }) {
  const value = NUMBERS[dtype] ?? 0;
  return (shape ?? [null]).reduceRight((inner, size) => Array(Math.min(size ?? 1, 64)).fill(inner), value);
}
