// The kinds of input, an entry each: the models that it fits, by their signatures, and what it shows and sends.

import { audioInput, soundOf } from "./audio.js";
import { imageInput, pixelsOf } from "./image.js";
import { isOfSpans } from "../spans.js";
import { jsonInput } from "./json.js";
import { NAMES, pairsInput } from "./pairs.js";
import { seriesInput } from "./series.js";
import { textInput } from "./text.js";
import { tokensInput } from "./tokens.js";

const DEFAULT = "serving_default";
const AUDIO = "audio"; // the input of WAV files

/**
 * @typedef {import("../signatures.js").Signature} Signature
 * @typedef {{signatures: Object<string, Signature>, card: any}} Described a version
 * @typedef {{kind: string, signature: string, input: string, features?: number}} Way how a model is asked: a name
 *   of KINDS, a signature, the name of its input, and what else the kind needs to know
 * @typedef {Object} Kind
 * @property {string} title of its button
 * @property {(signatures: Object<string, Signature>) => Omit<Way, "kind">|null} fit the way to ask a model of such
 *   signatures; null if it has none
 * @property {(way: Way, onChange: () => void, described: Described) => any} make the input; text.js shows what it has
 * @property {(described: Described) => any} [madeFor] what an input is kept for; without it, for all models of one way
 * @property {(row: any, values: Object<string, any[]>) => string} [words] a row of an example on its button, of
 *   the values of all inputs; without it, the row itself
 * @property {(value: any, tokens: string[], signatures: Object<string, Signature>, row: Object<string, any>) => any}
 *   [explained] a row as attention/fetch.js takes it, of the value of its input and those of all; without it
 *   nothing is told of attention
 * @property {boolean} [hasWords] true if words of a row can be left out, to see which decide
 */

/**
 * The kinds by name, the best first; JSON, which fits each model, is the last.
 * @type {Object<string, Kind>}
 */
export const KINDS = {
  image: {
    title: "Image",
    fit({ encoded }) {
      const file = encoded && onlyInput(encoded);
      if (file?.name !== "encoded" || !fits(file, "string", 1)) return null;
      return { signature: "encoded", input: "encoded" };
    },
    make: imageInput,
    explained: (file, _tokens, { explain }) => pixelsOf(file, explain),
  },
  audio: {
    title: "Sound",
    fit: (signatures) => onMain(signatures, (main) => main.name === AUDIO && fits(main, "string", 1)),
    make: audioInput,
    explained: soundOf,
  },
  text: {
    title: "Text",
    fit: (signatures) => onMain(signatures, (main) => main.name !== AUDIO && fits(main, "string", 1)),
    make: textInput,
    explained: (text) => ({ text }),
    hasWords: true,
  },
  pairs: {
    title: "Two texts",
    fit({ [DEFAULT]: main }) {
      const names = Object.keys(main?.inputs ?? {});
      const isText = (name) => Object.hasOwn(NAMES, name) && fits(main.inputs[name], "string", 1);
      return names.length === 2 && names.every(isText) ? { signature: DEFAULT, input: "text" } : null;
    },
    make: pairsInput,
    words: (_first, { text: [first], text_pair: [second] }) => `${first} / ${second}`,
    explained: (_first, _tokens, _signatures, { text, text_pair }) => ({ text, text_pair }),
    hasWords: true,
  },
  spans: {
    title: "Text",
    fit({ spans }) {
      const text = spans && onlyInput(spans);
      return text && isOfSpans(spans) && fits(text, "string", 1) ? { signature: "spans", input: text.name } : null;
    },
    make: textInput,
  },
  tokens: {
    title: "Tokens",
    fit: (signatures) => onMain(signatures, (main) => fits(main, "string", 2)),
    make: tokensInput,
    words: (row) => row.join(" "),
    explained: (_padded, tokens) => ({ tokens }),
  },
  series: {
    title: "Series",
    fit(signatures) {
      const way = onMain(
        signatures,
        (main) => main.name === "values" && fits(main, "float", 3) && main.shape[2],
      );
      return way && { ...way, features: signatures[DEFAULT].inputs[way.input].shape[2] };
    },
    make: seriesInput,
    explained: (series) => ({ series }),
  },
  json: {
    title: "JSON",
    fit: (signatures) => ({ signature: firstOf(signatures), input: "" }),
    make: jsonInput,
    madeFor: ({ signatures }) => signatures,
  },
};

/**
 * Return the ways in which a person can ask a model, the best first.
 * @param {Object<string, Signature>} signatures
 * @returns {Way[]}
 */
export function waysToAsk(signatures) {
  return Object.entries(KINDS).flatMap(([kind, { fit }]) => {
    const way = fit(signatures);
    return way ? [{ kind, ...way }] : [];
  });
}

/** Return the way by the only input of the main signature; null if there is none, or `takes` says no. */
function onMain(signatures, takes) {
  const main = signatures[DEFAULT] && onlyInput(signatures[DEFAULT]);
  return main && takes(main) ? { signature: DEFAULT, input: main.name } : null;
}

function firstOf(signatures) {
  return DEFAULT in signatures ? DEFAULT : (Object.keys(signatures)[0] ?? DEFAULT);
}

function onlyInput({ inputs }) {
  const named = Object.entries(inputs);
  return named.length === 1 ? { name: named[0][0], ...named[0][1] } : null;
}

/** Return true for a tensor of a type and a number of axes whose first two, rows and their places, are of any size. */
function fits({ dtype, shape }, type, rank) {
  return dtype === type && shape?.length === rank && shape.slice(0, 2).every((size) => size === null);
}
