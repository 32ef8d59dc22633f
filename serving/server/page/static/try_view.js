// The view in which a person asks a model, and sees the answer.

import { readAnswer } from "./answers.js";
import { Unreachable, connection } from "./api.js";
import { attentionPart } from "./explain.js";
import { ask, callOf, wholeCall } from "./calls.js";
import { describe, versionOf } from "./catalog.js";
import { afterPause, checkbox, element, field, fill, number, percent, shortened } from "./dom.js";
import { modelInput } from "./inputs/model_input.js";
import { resultsView } from "./results.js";
import { snippetsView } from "./snippets.js";
import { nameOf, targetPicker } from "./targets.js";

const PAUSE_MILLISECONDS = 350;
const MOST_WHILE_TYPING = 5000; // characters: longer rows wait for the button

export function tryView() {
  const input = modelInput(changed);
  const lost = element("p", { class: "note", role: "status" });
  const picker = targetPicker((target, gone) => {
    lost.textContent = gone ? `${named(gone)} does not answer any more. The latest version is asked.` : "";
    fit(target);
  });
  const button = element("button", { type: "submit", class: "primary" }, "Ask");
  const state = element("p", { class: "state", role: "status" });
  const trouble = element("div", { class: "trouble", role: "alert" });
  const results = resultsView((row) => attention.offer(last, row));
  const attention = attentionPart();
  const trust = element("p", { class: "note" });
  const snippets = snippetsView();
  const askSoon = afterPause(() => isLive && input.size() <= MOST_WHILE_TYPING && run(), PAUSE_MILLISECONDS);
  let isLive = true;
  let controller = null;
  let waits = false; // for the server to come back
  let last = null;
  let fitted = ""; // the version that the input is for, or will be once that is described
  let held = ""; // the version that the input is for now
  let answered = ""; // the model that the answers are of

  const live = checkbox("Answer while I type", true, (checked) => (isLive = checked));
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
    field("Version", picker.element),
    lost,
    input.element,
    element("div", { class: "inline" }, button, live),
  );
  const answer = element(
    "section",
    { class: "panel", "aria-label": "Answer" },
    element("h2", { class: "offscreen" }, "Answer"),
    state,
    trouble,
    results.element,
    attention.buttons,
    trust,
  );
  const view = element(
    "section",
    { class: "view" },
    element("div", { class: "columns" }, form, answer),
    attention.element,
    snippets.element,
  );
  snippets.show(null);
  nothing();
  connection.addEventListener("gone", () => (fitted = "")); // it may come back with another model

  /** Take away the answers of another model. */
  function begin(model) {
    answered = model;
    controller?.abort();
    nothing();
  }

  function changed() {
    snippets.show(calls());
    askSoon();
  }

  /** Return the call for what the input holds; null for nothing, or for what cannot be asked. */
  function calls() {
    try {
      return call(input.read());
    } catch {
      return null;
    }
  }

  function call(asked) {
    if (!isFit() || !asked.titles.length) return null;
    if (asked.body) return wholeCall(picker.chosen(), input.signature(), asked.verb, asked.body, asked);
    return callOf(picker.chosen(), input.signature(), asked);
  }

  /** Return true unless the input still holds what another model is asked. */
  function isFit() {
    const target = picker.chosen();
    return Boolean(target) && keyOf(target) === held;
  }

  async function fit(target) {
    if (target.model !== answered) begin(target.model);
    const key = (fitted = keyOf(target));
    try {
      const described = await describe(target.model, versionOf(target));
      if (target !== picker.chosen() || key !== keyOf(target)) return;
      input.fit(described);
      held = key;
      fill(trust, trusted(described.card));
      fill(trouble);
      changed();
      if (waits) run();
    } catch (error) {
      fitted = "";
      fail(error);
    }
  }

  async function run() {
    if (held && picker.chosen() && !isFit()) {
      waits = true; // `fit` asks then
      if (!fitted) fit(picker.chosen()); // it failed before
      return;
    }
    controller?.abort();
    controller = new AbortController();
    const { signal } = controller;
    waits = false;
    fill(trouble);
    try {
      const asked = call(input.read());
      snippets.show(asked);
      if (!asked) return nothing();
      state.textContent = "Asking …";
      await answers(asked, signal);
    } catch (error) {
      if (!signal.aborted) fail(error);
    }
  }

  async function answers(asked, signal) {
    const version = versionOf(asked.target);
    const described = await describe(asked.target.model, version);
    const signature = described.signatures[asked.signature];
    const { titles, tokens, body } = asked.asked;
    let [done, spent] = [0, 0];
    let found = [];
    await ask(
      asked,
      (answer, rows, milliseconds) => {
        const part = tokens?.slice(done, done + rows) ?? null;
        const texts = body ? null : titles.slice(done, done + rows);
        const read = readAnswer(answer, signature, described.card, part, texts);
        if (!done) {
          last = { call: asked, version, described, way: input.way() };
          results.begin(body ? read.map((_, row) => `row ${row + 1}`) : titles);
        }
        results.add(done, read);
        if (!done) found = read;
        done += rows;
        spent += milliseconds;
        fill(state, said(asked, version, done, titles.length, spent, found));
      },
      signal,
    );
  }

  function nothing() {
    state.textContent = "The answer appears here.";
    results.begin([]);
    attention.offer(null, 0);
  }

  function fail(error) {
    state.textContent = "";
    waits = error instanceof Unreachable;
    const more = waits ? " Your input is kept, and it is asked again as soon as the server is back." : "";
    const retry = waits && element("button", { type: "button", onclick: run }, "Try again now");
    fill(trouble, element("p", {}, error.message + more), retry);
  }

  return {
    element: view,
    title: "Try",
    /** Show another model, or the same one as it is now. */
    update(model) {
      picker.offer(model);
      const target = picker.chosen();
      if (target && keyOf(target) !== fitted) fit(target);
    },
  };
}

function named({ label, version }) {
  return label ? `The label ${label}` : `Version ${version}`;
}

function keyOf(target) {
  return `${target.model}/${versionOf(target)}`;
}

/** Return a line about the answers; what stands below them in full is there for screen readers alone. */
function said(asked, version, done, rows, spent, found) {
  const [first] = found;
  const score = first.score === null ? "" : `, ${percent(first.score)}`;
  const isOne = rows === 1 && found.length === 1;
  const by = asked.target.version ? `version ${version}` : nameOf(asked.target);
  return [
    isOne && element("span", { class: "offscreen" }, `${shortened(first.summary, 80)}${score}. `),
    isOne ? "Answered " : `${number(done)} of ${number(rows)} rows answered `,
    `by ${by} in ${number(Math.round(spent * 10) / 10)} ms, network included`,
  ];
}

/** Return sentences about how far the confidence can be trusted, by the card. */
function trusted(card) {
  if (!card?.labels) return [];
  const error = card.metrics?.calibration_error;
  const accuracy = card.metrics?.accuracy;
  const rows = card.metrics?.rows
    ? `${number(card.metrics.rows)} rows of the ${card.metrics.split ?? "test"} data`
    : "test data";
  const right =
    typeof accuracy === "number" ? `On ${rows} ${percent(accuracy)} of the answers were right. ` : "";
  if (typeof error !== "number")
    return [`${right}The card does not tell how well the confidence is calibrated.`];
  const points = number(100 * error, 2);
  const apart = `${points} point${points === "1" ? "" : "s"}`;
  return [`${right}Confidence and share of right answers were ${apart} apart there, on average.`];
}
