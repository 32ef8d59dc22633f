// The model card and the signatures of a version, for reading.

import { element, foreign, number, percent } from "./dom.js";
import { raw } from "./results.js";
import { written } from "./signatures.js";

const SHARES = new Set([
  "accuracy",
  "macro_f1",
  "micro_f1",
  "weighted_f1",
  "precision",
  "recall",
  "calibration_error",
]);
const [FIRST_LABELS, MOST_LABELS] = [30, 2000];

/** Return a card for reading; a sentence if there is none. */
export function cardPart(card) {
  if (!card)
    return element(
      "p",
      { class: "note" },
      "There is no model card: this version was not exported by keras-selfattn.",
    );
  const data = Object.entries(card.training?.data ?? {}).map(
    ([part, { source, rows }]) => `${part}: ${number(rows)} rows of ${source}`,
  );
  const versions = Object.entries(card.versions ?? {}).map(([name, version]) => `${name} ${version}`);
  const pairs = [
    ["Task", card.task],
    ["Labels", card.labels && labels(card.labels)],
    ["Scores", card.scores && labels(card.scores)],
    ["Measured", card.metrics && measured(card.metrics)],
    ["Data", data.join("; ")],
    ["Vocabulary", card.vocabulary_size && `${number(card.vocabulary_size)} tokens`],
    ["Precision", card.precision],
    ["Size", card.files?.bytes && `${number(card.files.bytes / 1e6, 3)} MB`],
    ["Written", card.created && `${card.created} with ${versions.join(", ")}`],
    [
      "Needs",
      card.requires?.tensorflow_serving &&
        `TensorFlow Serving ${card.requires.tensorflow_serving}, or this server`,
    ],
  ];
  const shown = pairs.filter(([, value]) => value);
  return element(
    "div",
    {},
    element(
      "dl",
      { class: "card" },
      shown.map(([name, value]) => [
        element("dt", {}, name),
        element("dd", {}, typeof value === "string" ? foreign(value) : value),
      ]),
    ),
    element("details", {}, element("summary", {}, "The whole card"), raw(card)),
  );
}

function labels(names) {
  const more = names.length - FIRST_LABELS;
  const shown = names.slice(0, FIRST_LABELS).map((name) => element("span", { class: "tag" }, foreign(name)));
  const rest =
    more > 0 &&
    element(
      "details",
      {},
      element("summary", {}, `${number(more)} more`),
      names.slice(FIRST_LABELS, MOST_LABELS).map((name) => element("span", { class: "tag" }, foreign(name))),
      names.length > MOST_LABELS && `… ${number(names.length - MOST_LABELS)} are not shown`,
    );
  return element("div", {}, `${number(names.length)}: `, shown, rest);
}

function measured({ split, rows, ...figures }) {
  const shown = Object.entries(figures)
    .filter(([, value]) => typeof value === "number")
    .map(
      ([name, value]) => `${name.replaceAll("_", " ")} ${SHARES.has(name) ? percent(value) : number(value)}`,
    );
  const on = rows ? ` on ${number(rows)} rows` : "";
  return `${shown.join(", ")}${on}${split ? ` (${split})` : ""}`;
}

/** Return the signatures as a table. */
export function signaturesPart(signatures) {
  const head = ["Signature", "Call", "Takes", "Answers"].map((name) => element("th", { scope: "col" }, name));
  const tensors = (named) =>
    Object.entries(named).map(([name, tensor]) => element("div", {}, foreign(name), `: ${written(tensor)}`));
  const rows = Object.entries(signatures).map(([name, { method, inputs, outputs }]) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, foreign(name)),
      element("td", {}, method),
      element("td", {}, tensors(inputs)),
      element("td", {}, tensors(outputs)),
    ),
  );
  return element(
    "div",
    { class: "scrolls", tabindex: 0, role: "region", "aria-label": "Signatures" },
    element("table", {}, element("thead", {}, element("tr", {}, head)), element("tbody", {}, rows)),
  );
}
