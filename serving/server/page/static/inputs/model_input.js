// The input that fits a model, with its examples; what is written in it stays when another model takes the same.

import { element, fill, shortened } from "../dom.js";
import { KINDS } from "./kinds.js";

/**
 * A place for the input of a model.
 * @param {() => void} onChange
 */
export function modelInput(onChange) {
  const kinds = element("div", { class: "kinds", role: "group", "aria-label": "Kind of input" });
  const place = element("div");
  const examples = element("div", { class: "examples" });
  const box = element("div", { class: "ask" }, kinds, place, examples);
  const kept = new Map();
  let described = null;
  let way = null;
  let wanted = ""; // the kind that a person has chosen
  let input = null;

  function choose(next) {
    way = next;
    const key = JSON.stringify([way, KINDS[way.kind].madeFor?.(described)]);
    if (!kept.has(key)) kept.set(key, KINDS[way.kind].make(way, onChange, described));
    input = kept.get(key);
    for (const button of kinds.children)
      button.setAttribute("aria-pressed", button.dataset.kind === way.kind);
    if (place.firstChild !== input.element) fill(place, input.element);
    fill(examples, examplesOf(described.card, way).map(exampleButton));
  }

  function exampleButton({ values, isMadeUp }) {
    const [row] = Object.values(values)[0];
    const text = KINDS[way.kind].words?.(row, values) ?? row;
    const shown = typeof text === "string" ? `“${shortened(text, 40)}”` : "of the model card";
    const title = `${isMadeUp ? "Made-up example" : "Example"} ${shown}`;
    return element("button", { type: "button", class: "example", onclick: () => input.set(values) }, title);
  }

  return {
    element: box,
    /** Show the input for a version. */
    fit(next) {
      described = next;
      fill(
        kinds,
        next.ways.map((each) =>
          element(
            "button",
            {
              type: "button",
              "data-kind": each.kind,
              onclick: () => {
                wanted = each.kind;
                choose(each);
                onChange();
              },
            },
            KINDS[each.kind].title,
          ),
        ),
      );
      kinds.hidden = next.ways.length < 2;
      choose(next.ways.find((each) => each.kind === wanted) ?? next.ways[0]);
    },
    way: () => way,
    signature: () => input?.signature?.() ?? way.signature,
    size: () => input?.size() ?? 0,
    /** Return the rows; raises an Error that says what is wrong with them. */
    read() {
      if (!input) throw new Error("The server has not told yet what this model takes.");
      return input.read();
    },
  };
}

function examplesOf(card, way) {
  const example = card?.signatures?.[way.signature]?.example;
  if (!example?.request || !(way.input in example.request)) return [];
  return [{ values: example.request, isMadeUp: example.made_up }];
}
