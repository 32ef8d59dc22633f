// The view in which versions and labels of a model answer the same rows side by side.

import { readAnswer } from "./answers.js";
import { connection } from "./api.js";
import { ask, callOf, wholeCall } from "./calls.js";
import { describe, modelNamed, versionOf } from "./catalog.js";
import { differences } from "./differences.js";
import { checkbox, element, fill, foreign, number, percent, shortened } from "./dom.js";
import { modelInput } from "./inputs/model_input.js";
import { full } from "./results.js";
import { nameOf, targetsOf } from "./targets.js";

const MOST_ROWS = 500; // in the table; all are compared
const TITLE = 80;
const MOST_TARGETS = 6;

export function compareView() {
  const input = modelInput(() => {});
  const targets = element("fieldset", { class: "targets" });
  const state = element("p", { class: "state", role: "status" });
  const trouble = element("p", { class: "trouble", role: "alert" });
  const table = element("div");
  const sides = element("div", { class: "sides" });
  const form = element(
    "form",
    {
      class: "panel",
      "aria-label": "Question",
      onsubmit: (event) => {
        event.preventDefault();
        run();
      },
    },
    targets,
    input.element,
    element("button", { type: "submit", class: "primary" }, "Compare"),
  );
  const view = element(
    "section",
    { class: "view" },
    form,
    element("section", { class: "panel", "aria-label": "Answers" }, state, trouble, table, sides),
  );
  let shownTargets = "";
  let fitted = "";
  let offered = [];
  let chosen = new Set();
  let controller = null;
  let answered = ""; // the model that the answers are of

  connection.addEventListener("gone", () => (fitted = "")); // it may come back with another model

  function offer(model) {
    const [, ...named] = targetsOf(model); // without the latest: it would become another one meanwhile
    offered = [
      ...named.filter((target) => target.label),
      ...named.filter((target) => target.version).reverse(),
    ];
    const key = JSON.stringify([model.name, offered.map(nameOf)]);
    if (key === shownTargets) return;
    shownTargets = key;
    const names = offered.map(keyOf);
    const kept = names.filter((name) => chosen.has(name));
    chosen = new Set(kept.length > 1 ? kept : firstTwo(offered).map(keyOf));
    fill(
      targets,
      element("legend", {}, "Compare: the first one is the base of all others"),
      offered.map((target) =>
        checkbox(nameOf(target), chosen.has(keyOf(target)), (checked) => {
          if (checked) chosen.add(keyOf(target));
          else chosen.delete(keyOf(target));
        }),
      ),
    );
  }

  async function fit(target) {
    if (target.model !== answered) {
      answered = target.model;
      controller?.abort();
      [state, trouble, table, sides].forEach((part) => fill(part));
    }
    const key = fitted;
    try {
      const described = await describe(target.model, versionOf(target));
      if (key === fitted) input.fit(described);
    } catch (error) {
      fitted = "";
      trouble.textContent = error.message;
    }
  }

  async function run() {
    controller?.abort();
    controller = new AbortController();
    const { signal } = controller;
    fill(trouble);
    fill(sides);
    fill(table);
    try {
      const asked = input.read();
      const wanted = offered.filter((target) => chosen.has(keyOf(target)));
      check(asked, wanted);
      state.textContent = `Asking ${wanted.length} …`;
      const found = await Promise.all(wanted.map((target) => answersOf(target, asked, signal)));
      show(wanted, found, asked);
    } catch (error) {
      if (signal.aborted) return;
      state.textContent = "";
      trouble.textContent = error.message;
    }
  }

  async function answersOf(target, asked, signal) {
    const { signatures, card } = await describe(target.model, versionOf(target));
    const name = input.signature();
    if (!(name in signatures)) throw new Error(`${nameOf(target)} has no signature ${name}.`);
    const call = asked.body
      ? wholeCall(target, name, asked.verb, asked.body, asked)
      : callOf(target, name, asked);
    const answers = [];
    let spent = 0;
    await ask(
      call,
      (answer, rows, milliseconds) => {
        const tokens = asked.tokens?.slice(answers.length, answers.length + rows) ?? null;
        const texts = asked.body ? null : asked.titles.slice(answers.length, answers.length + rows);
        answers.push(...readAnswer(answer, signatures[name], card, tokens, texts));
        spent += milliseconds;
      },
      signal,
    );
    return { answers, spent };
  }

  function show(wanted, found, asked) {
    const rows = found[0].answers.map((first, row) => {
      const answers = found.map(({ answers: own }) => own[row]);
      const others = answers.slice(1).map((answer) => differences(first, answer));
      return { title: asked.titles[row] ?? `row ${row + 1}`, answers, others };
    });
    state.textContent = summary(wanted, rows);
    if (rows.length > 1)
      fill(
        table,
        rowsTable(wanted, rows, (row) => showSides(wanted, found, row)),
      );
    showSides(wanted, found, rows[0]);
  }

  function showSides(wanted, found, { title, answers, others }) {
    const rows = found[0].answers.length;
    fill(
      sides,
      element("h2", { class: "asked" }, foreign(shortened(title, 2 * TITLE))),
      element(
        "div",
        { class: "side-by-side" },
        answers.map((answer, place) =>
          element(
            "section",
            { class: "side" },
            element(
              "h3",
              {},
              foreign(nameOf(wanted[place])),
              place === 0 && element("span", { class: "tag" }, "base"),
            ),
            full(answer),
            place > 0 && changed(others[place - 1]),
            element(
              "p",
              { class: "note" },
              `${number(Math.round(found[place].spent * 10) / 10)} ms${rows > 1 ? ` for ${rows} rows` : ""}`,
            ),
          ),
        ),
      ),
    );
  }

  return {
    element: view,
    title: "Compare",
    update(name) {
      const model = modelNamed(name);
      if (!model) return;
      offer(model);
      const [target] = targetsOf(model);
      const key = `${name}/${versionOf(target)}`;
      if (key !== fitted) {
        fitted = key;
        fit(target);
      }
    },
  };
}

function check(asked, wanted) {
  if (!asked.titles.length) throw new Error("Write or choose something to ask first.");
  if (wanted.length < 2) {
    throw new Error(
      "Choose two versions or labels, or more. A server answers with several versions where its file of models says so.",
    );
  }
  if (wanted.length > MOST_TARGETS)
    throw new Error(`Choose at most ${MOST_TARGETS}: more do not fit side by side.`);
}

function keyOf(target) {
  return target.label ? `label ${target.label}` : `version ${target.version}`;
}

/** Return the two to begin with: two labels of different versions, or the two newest versions. */
function firstTwo(offered) {
  const labels = offered.filter((target) => target.label);
  const stable = labels.find((target) => target.label === "stable") ?? labels[0];
  const other = stable && labels.find((target) => versionOf(target) !== versionOf(stable));
  return other ? [stable, other] : offered.filter((target) => target.version).slice(-2);
}

function summary(wanted, rows) {
  const [base, ...others] = wanted;
  const parts = others.map((target, place) => {
    const count = rows.filter(({ others: found }) => found[place].isOther).length;
    if (rows.length === 1) return `${nameOf(target)} gives ${count ? "another" : "the same"} answer`;
    return `${nameOf(target)} gives another answer to ${number(count)} of ${number(rows.length)} rows`;
  });
  return `Against ${nameOf(base)}: ${parts.join("; ")}.`;
}

function changed({ isOther, words }) {
  if (!words.length) return element("p", { class: "note" }, isOther ? "Another answer." : "Nothing changed.");
  return element(
    "table",
    { class: "changes" },
    element("caption", {}, isOther ? mark() : "The same answer", isOther ? "" : "; what moved most:"),
    element(
      "tbody",
      {},
      words.map(({ name, from, to, change }) =>
        element(
          "tr",
          {},
          element("th", { scope: "row" }, foreign(name)),
          element("td", {}, foreign(from), " → ", foreign(to)),
          element("td", { class: "figure" }, change),
        ),
      ),
    ),
  );
}

function mark() {
  return element("strong", { class: "other" }, "≠ another answer");
}

function rowsTable(wanted, rows, onLook) {
  const body = element("tbody");
  const only = checkbox("Only rows with another answer", false, show);
  const head = ["Row", ...wanted.map(nameOf), ""].map((name) =>
    element("th", { scope: "col" }, name && foreign(name)),
  );

  function show(filtered) {
    const found = rows.filter(({ others }) => !filtered || others.some(({ isOther }) => isOther));
    fill(
      body,
      found.slice(0, MOST_ROWS).map((row) =>
        element(
          "tr",
          {},
          element(
            "td",
            {},
            element(
              "button",
              { type: "button", class: "plain", onclick: () => onLook(row) },
              foreign(shortened(row.title, TITLE)),
            ),
          ),
          row.answers.map((answer) =>
            element(
              "td",
              {},
              foreign(shortened(answer.summary, TITLE)),
              answer.score !== null && element("span", { class: "figure" }, ` ${percent(answer.score)}`),
            ),
          ),
          element("td", {}, row.others.some(({ isOther }) => isOther) && mark()),
        ),
      ),
    );
  }

  show(false);
  return [
    only,
    element(
      "div",
      { class: "scrolls", tabindex: 0, role: "region", "aria-label": "Answers to all rows" },
      element("table", {}, element("thead", {}, element("tr", {}, head)), body),
    ),
  ];
}
