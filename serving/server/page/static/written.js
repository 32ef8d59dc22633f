// A text that a model wrote: the answer, whether its bound cut it, and what else the search found.

import { element, foreign } from "./dom.js";

const MOST_CANDIDATES = 50;
const LARGE = 120; // characters: longer answers are read, not seen at a glance
const ABOUT =
  "The score is the mean log probability of the pieces that the text is written in: 0 is certain, and the lower it is, " +
  "the less sure the model is. It does not tell whether the text is right.";

/**
 * Return a written text in full.
 * @param {import("./answers.js").RowAnswer} answer
 */
export function writtenText({ summary, mean, isCut, candidates }) {
  const isLong = [...summary].length > LARGE;
  const text = summary === "" ? element("em", {}, "an empty text") : foreign(summary);
  return [
    element("p", { class: isLong ? "answer written long" : "answer written" }, element("strong", {}, text)),
    element(
      "p",
      { class: "written-facts" },
      "Score ",
      element("b", { class: "figure" }, logScore(mean)),
      isCut && isCutMark(),
    ),
    isCut &&
      element(
        "p",
        { class: "note" },
        "The model was not done: its bound of pieces, max_new_tokens, ended the text.",
      ),
    candidates.length > 1 && candidateTable(candidates),
    element("p", { class: "note" }, ABOUT),
  ];
}

/** Return the mark of a text that is not whole. */
export function isCutMark() {
  return element("span", { class: "tag cut" }, "cut at its bound");
}

function candidateTable(candidates) {
  const best = Math.max(...candidates.map(({ score }) => score));
  const rows = candidates
    .slice(0, MOST_CANDIDATES)
    .map(({ text, score }) =>
      element(
        "tr",
        {},
        element("td", { class: "written" }, text === "" ? element("em", {}, "an empty text") : foreign(text)),
        element("td", { class: "figure" }, logScore(score)),
        element("td", { class: "figure" }, score === best ? "" : `−${(best - score).toFixed(3)}`),
      ),
    );
  const head = ["Candidate", "Score", "Behind"].map((name) => element("th", { scope: "col" }, name));
  return element(
    "table",
    { class: "candidates" },
    element("caption", {}, "What the search found, the best first"),
    element("thead", {}, element("tr", {}, head)),
    element("tbody", {}, rows),
  );
}

/** Write a log probability. */
export function logScore(score) {
  if (score === null) return "–";
  return score < 0 ? `−${(-score).toFixed(3)}` : score.toFixed(3);
}
