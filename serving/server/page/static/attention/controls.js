/** The tabs, and the choice of what their views show. */

import { element, freshId } from "../dom.js";
import { hasRollout, isOfOneSequence } from "./matrices.js";

/**
 * Make tabs that the arrow keys reach.
 * @param {[string, string][]} tabs names and titles.
 * @param {HTMLElement} panel what they switch.
 */
export function tabList(tabs, panel, choose) {
  panel.id = freshId();
  const fixed = { type: "button", role: "tab", "aria-controls": panel.id };
  const buttons = tabs.map(([name, text]) =>
    element("button", { ...fixed, id: freshId(), text, onclick: () => choose(name) }),
  );
  const onkeydown = (event) => {
    const now = buttons.indexOf(event.target);
    const keys = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: tabs.length - 1 };
    if (!(event.key in keys)) return;
    event.preventDefault();
    const place = (keys[event.key] + tabs.length) % tabs.length;
    choose(tabs[place][0]);
    buttons[place].focus();
  };
  const list = element("div", { role: "tablist", "aria-label": "Views", onkeydown }, buttons);
  const show = (chosen) => {
    tabs.forEach(([name], place) => {
      buttons[place].setAttribute("aria-selected", String(name === chosen));
      buttons[place].tabIndex = name === chosen ? 0 : -1;
      if (name === chosen) panel.setAttribute("aria-labelledby", buttons[place].id);
    });
  };
  return { list, show };
}

/** Make the choices of matrix, direction and scale. */
export function choices(explanation, state) {
  const selects = new Map();
  const bar = element("div", { class: "attention-choices" });
  for (const [name, label, options] of offered(explanation)) {
    const isNumber = typeof state.get()[name] === "number";
    const change = (value) => state.set({ [name]: isNumber ? Number(value) : value });
    const made = choice(label, options, String(state.get()[name]), change);
    selects.set(name, made.select);
    bar.append(made.label);
  }
  const show = (now) => {
    for (const [name, select] of selects) select.value = String(now[name]);
    selects.get("layer").disabled = now.source === "all" || now.source === "rollout";
    selects.get("head").disabled = now.source !== "head";
  };
  return { bar, show };
}

/**
 * Make a `<select>`.
 * @param {[string, string][]} options value and text of each.
 * @param {(value: string) => void} change called with another choice.
 */
export function choice(label, options, value, change) {
  const made = options.map(([key, text]) => element("option", { value: key, text }));
  const select = element("select", { "aria-label": label, onchange: () => change(select.value) }, made);
  select.value = value;
  return { label: element("label", {}, [element("span", { text: label }), select]), select };
}

/** Return the names in the state, the labels and the options of what can be chosen. */
function offered(explanation) {
  const { layers, heads, shape, poolings } = explanation;
  const numbers = (count) => Array.from({ length: count }, (_, place) => [String(place), String(place + 1)]);
  const found = [
    ["source", "Weights", sources(explanation)],
    ["layer", "Layer", numbers(layers)],
    ["head", "Head", numbers(heads)],
  ];
  const directions = [
    ["from", "it attends to"],
    ["to", "attends to it"],
  ];
  if (isOfOneSequence(explanation)) found.push(["direction", "A position shows what", directions]);
  if (poolings) found.push(["base", "None chosen shows", bases(poolings.length / shape[1])]);
  const scales = [
    ["plain", "in proportion"],
    ["root", "square root"],
  ];
  return [...found, ["scale", "Colours", scales]];
}

function sources(explanation) {
  const found = [["head", "one head"]];
  if (explanation.heads > 1) found.push(["layer", "average over a layer's heads"]);
  if (explanation.heads * explanation.layers > 1) found.push(["all", "average over all heads"]);
  if (hasRollout(explanation)) found.push(["rollout", "rollout: what the layers pass on, multiplied"]);
  return found;
}

function bases(hops) {
  const found = [["average", "the average of all queries"]];
  for (let hop = 0; hop < hops; hop += 1) found.push([String(hop), `pooling, hop ${hop + 1}`]);
  return found;
}
