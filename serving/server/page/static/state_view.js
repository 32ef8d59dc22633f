// The view of what the server does now: its models, its load, and what a version takes. Nothing is changed here.

import { connection } from "./api.js";
import { cardPart, signaturesPart } from "./card.js";
import { catalog, describe, modelNamed, versionOf } from "./catalog.js";
import { element, field, fill, foreign } from "./dom.js";
import { loadPart } from "./server_load.js";
import { targetPicker } from "./targets.js";

const STATES = {
  AVAILABLE: ["✓", "answers"],
  LOADING: ["…", "is being loaded"],
  START: ["…", "waits to be loaded"],
  UNLOADING: ["↓", "finishes its last requests"],
  END: ["–", "has ended"],
};

export function stateView() {
  const models = element("tbody");
  const load = loadPart();
  const picker = targetPicker(look);
  const version = element("div");
  const head = ["Model", "Version", "State", "Labels"].map((name) => element("th", { scope: "col" }, name));
  const table = element("table", {}, element("thead", {}, element("tr", {}, head)), models);
  const view = element(
    "section",
    { class: "view" },
    element("section", { class: "panel" }, element("h2", {}, "Load"), load.element),
    element(
      "section",
      { class: "panel" },
      element("h2", {}, "Models"),
      element("div", { class: "scrolls", tabindex: 0, role: "region", "aria-label": "Models" }, table),
    ),
    element(
      "section",
      { class: "panel" },
      element("h2", {}, "What a version takes and answers"),
      field("Version", picker.element),
      version,
    ),
  );
  let looked = "";
  connection.addEventListener("gone", () => (looked = "")); // it may come back with another model

  async function look(target) {
    const number = versionOf(target);
    looked = `${target.model}/${number}`;
    const key = looked;
    try {
      const { signatures, card } = await describe(target.model, number);
      if (key === looked) fill(version, cardPart(card), signaturesPart(signatures));
    } catch (error) {
      looked = "";
      fill(version, element("p", { class: "trouble" }, error.message));
    }
  }

  return {
    element: view,
    title: "State",
    update(name) {
      fill(models, catalog().models.flatMap(rows));
      if (!modelNamed(name)) return;
      picker.offer(name);
      const target = picker.chosen();
      if (target && `${target.model}/${versionOf(target)}` !== looked) look(target);
    },
    /** Begin to ask for the metrics, or end it. */
    show: (isShown) => (isShown ? load.begin() : load.end()),
  };
}

function rows({ name, labels, versions }) {
  if (!versions.length) {
    return [
      element(
        "tr",
        {},
        element("td", {}, foreign(name)),
        element("td", {}),
        element("td", {}, "has no version yet"),
        element("td", {}),
      ),
    ];
  }
  return versions.map(({ version, state, error }) => {
    const [sign, words] = STATES[state] ?? ["?", state];
    const own = Object.entries(labels)
      .filter(([, number]) => number === version)
      .map(([label]) => label);
    const failed = state === "END" && error;
    return element(
      "tr",
      { class: failed ? "failed" : "" },
      element("td", {}, foreign(name)),
      element("td", {}, version),
      element(
        "td",
        {},
        element("span", { class: "sign", "aria-hidden": "true" }, failed ? "✗" : sign),
        ` ${failed ? "failed" : words}`,
        error && element("div", { class: "trouble" }, foreign(error)),
      ),
      element(
        "td",
        {},
        own.map((label) => element("span", { class: "tag" }, foreign(label))),
      ),
    );
  });
}
