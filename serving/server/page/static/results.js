// The answers to some rows: a table of all, and the one that is looked at in full.

import { lineChart } from "./charts.js";
import { element, fill, foreign, number, percent, readable, shortened } from "./dom.js";
import { languageNames } from "./languages.js";
import { scoreBars } from "./scores.js";
import { markedText } from "./spans.js";
import { isCutMark, logScore, writtenText } from "./written.js";

const MOST_ROWS = 500; // in the table; all are counted
const TITLE = 120; // characters of a row in the table
const MOST_TOKENS = 1000;
const MOST_RAW = 20_000; // characters

/**
 * A view of answers, which are added as they come.
 * @param {(row: number) => void} [onLook] told which row is looked at
 */
export function resultsView(onLook = () => {}) {
  const table = element("div", { class: "rows" });
  const whole = element("div", { class: "whole" });
  const box = element("div", { class: "results" }, table, whole);
  let rows = [];
  let body = null;
  let figure = null; // the head of the column of figures
  let looked = 0;

  /** Begin anew, with rows of these titles and no answers yet. */
  function begin(titles) {
    rows = titles.map((title) => ({ title, answer: null }));
    looked = Math.min(looked, Math.max(0, titles.length - 1));
    fill(table);
    body = figure = null;
    if (titles.length > 1) table.append(made());
    if (!titles.length) fill(whole);
  }

  function add(start, answers) {
    if (figure && answers[0]?.kind === "written") figure.textContent = "Score";
    answers.forEach((answer, index) => {
      const row = rows[start + index];
      if (!row) return;
      row.answer = answer;
      if (row.cells) showCells(row);
    });
    if (looked >= start && looked < start + answers.length) look(looked);
  }

  function look(index) {
    looked = index;
    const { answer, title } = rows[index];
    fill(
      whole,
      rows.length > 1 && element("p", { class: "asked" }, foreign(shortened(title, 2 * TITLE))),
      full(answer),
    );
    rows.forEach((row, place) => {
      row.line?.classList.toggle("looked", place === index);
      row.pick?.setAttribute("aria-current", String(place === index));
    });
    onLook(index);
  }

  function made() {
    const lines = rows.slice(0, MOST_ROWS).map((row, index) => line(row, index));
    body = element("tbody", {}, lines);
    const head = ["Row", "Answer", "Confidence"].map((name) => element("th", { scope: "col" }, name));
    figure = head[2];
    const left = rows.length - lines.length;
    return [
      element(
        "div",
        { class: "scrolls", tabindex: 0, role: "region", "aria-label": "Answers to all rows" },
        element("table", {}, element("thead", {}, element("tr", {}, head)), body),
      ),
      left > 0 && element("p", { class: "note" }, `${number(left)} more rows are asked and not shown.`),
    ]
      .filter(Boolean)
      .reduce((parent, each) => (parent.append(each), parent), document.createDocumentFragment());
  }

  function line(row, index) {
    row.pick = element(
      "button",
      { class: "plain", onclick: () => row.answer && look(index) },
      foreign(shortened(row.title, TITLE)),
    );
    row.cells = [element("td"), element("td", { class: "figure" })];
    row.line = element("tr", {}, element("td", {}, row.pick), row.cells);
    return row.line;
  }

  return { element: box, begin, add };
}

function showCells({ cells, answer }) {
  fill(cells[0], foreign(shortened(answer.summary, TITLE)), answer.isCut && [" ", isCutMark()]);
  fill(
    cells[1],
    answer.kind === "written" ? logScore(answer.mean) : answer.score === null ? "" : percent(answer.score),
  );
}

/** Return one answer in full. */
export function full(answer) {
  if (answer.kind === "classes") return [head(answer), scoreBars(answer.names, answer.scores, answer.chosen)];
  if (answer.kind === "tokens") return tokenLabels(answer.tokens);
  if (answer.kind === "spans") return markedText(answer);
  if (answer.kind === "written") return writtenText(answer);
  if (answer.kind === "numbers") return numbers(answer);
  return raw(answer.raw);
}

/** Return the label of an answer and its confidence, large. */
export function head(answer) {
  const meaning = languageNames(answer.names ?? [])(answer.summary);
  return element(
    "p",
    { class: "answer" },
    element("strong", {}, foreign(answer.summary)),
    meaning && element("span", { class: "meaning" }, ` ${meaning}`),
    answer.score !== null && element("span", { class: "figure" }, ` ${percent(answer.score)}`),
  );
}

function tokenLabels(tokens) {
  const shown = tokens
    .slice(0, MOST_TOKENS)
    .map(({ token, label, score }) =>
      element(
        "li",
        { class: label && label !== "O" ? "marked" : "" },
        element("span", { class: "token" }, foreign(token)),
        element("span", { class: "label" }, foreign(label || "–")),
        element("span", { class: "figure" }, percent(score)),
      ),
    );
  const left = tokens.length - shown.length;
  return [
    element("ol", { class: "tokens", "aria-label": "Tokens with their labels" }, shown),
    left > 0 && element("p", { class: "note" }, `${number(left)} more tokens`),
  ];
}

function numbers({ numbers: found, names }) {
  if (names) return namedNumbers(names, found);
  if (!Array.isArray(found))
    return element("p", { class: "answer" }, element("strong", {}, number(found, 6)));
  const list = Array.isArray(found[0])
    ? found[0].map((_, column) => found.map((frame) => frame[column]))
    : [found];
  const isLong = list[0].length > 2 && list.every((line) => line.every((each) => typeof each === "number"));
  return [isLong && lineChart(list, `${list[0].length} numbers`), raw(found)];
}

/** Return several numbers beside their names. */
function namedNumbers(names, found) {
  const pair = (value, place) => [
    element("dt", {}, foreign(names[place])),
    element("dd", {}, value === null ? "–" : number(value, 6)),
  ];
  return element("dl", { class: "card" }, [found].flat(Infinity).map(pair));
}

/** Return JSON, cut if it is very long. */
export function raw(value) {
  const text = readable(value);
  const left = text.length - MOST_RAW;
  const cut = left > 0 ? `${text.slice(0, MOST_RAW)}\n… ${number(left)} characters more` : text;
  return element("pre", { class: "raw", tabindex: 0, dir: "ltr" }, cut);
}
