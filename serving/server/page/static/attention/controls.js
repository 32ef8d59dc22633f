/** The tabs, and the choice of what their views show. */

import { choice, element, freshId } from "./dom.js";
import { hasRollout } from "./matrices.js";

/**
 * Make tabs that the arrow keys reach.
 * @param {[string, string][]} tabs names and titles.
 * @param {HTMLElement} panel what they switch.
 * @param {(name: string) => void} choose
 * @returns {{list: HTMLElement, show: (name: string) => void}}
 */
export function tabList(tabs, panel, choose) {
  panel.id = freshId();
  const buttons = new Map(
    tabs.map(([name, title]) => {
      const onclick = () => choose(name);
      const button = element("button", { type: "button", role: "tab", id: freshId(), "aria-controls": panel.id, onclick, text: title });
      return [name, button];
    }),
  );
  const names = [...buttons.keys()];
  const onkeydown = (event) => {
    const now = names.findIndex((name) => buttons.get(name) === event.target);
    const keys = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: names.length - 1 };
    if (!(event.key in keys)) return;
    event.preventDefault();
    const name = names[(keys[event.key] + names.length) % names.length];
    choose(name);
    buttons.get(name).focus();
  };
  const list = element("div", { role: "tablist", "aria-label": "Views", onkeydown }, [...buttons.values()]);
  const show = (chosen) => {
    for (const [name, button] of buttons) {
      button.setAttribute("aria-selected", String(name === chosen));
      button.tabIndex = name === chosen ? 0 : -1;
    }
    panel.setAttribute("aria-labelledby", buttons.get(chosen).id);
  };
  return { list, show };
}

/**
 * Make the choices of matrix, direction and scale.
 * @param {import("./matrices.js").Explanation} explanation
 * @param {import("./state.js").Store} state
 * @returns {{bar: HTMLElement, show: (now: import("./state.js").State) => void}}
 */
export function choices(explanation, state) {
  const { layers, heads } = explanation;
  const now = state.get();
  const numbers = (count) => Array.from({ length: count }, (_, place) => [String(place), String(place + 1)]);
  const source = choice("Weights", sources(explanation), now.source, (value) => state.set({ source: /** @type {any} */ (value) }));
  const layer = choice("Layer", numbers(layers), String(now.layer), (value) => state.set({ layer: Number(value) }));
  const head = choice("Head", numbers(heads), String(now.head), (value) => state.set({ head: Number(value) }));
  const directions = /** @type {[string, string][]} */ ([
    ["from", "it attends to"],
    ["to", "attends to it"],
  ]);
  const direction = choice("A token shows what", directions, now.direction, (value) => state.set({ direction: /** @type {any} */ (value) }));
  const base = choice("No token shows", bases(explanation), now.base, (value) => state.set({ base: value }));
  const scales = /** @type {[string, string][]} */ ([
    ["plain", "in proportion"],
    ["root", "square root"],
  ]);
  const scale = choice("Colours", scales, now.scale, (value) => state.set({ scale: /** @type {any} */ (value) }));
  const shown = [source, layer, head, ...(explanation.shape[0] === explanation.shape[1] ? [direction] : [])];
  if (explanation.poolings) shown.push(base);
  const bar = element("div", { class: "attention-choices" }, [...shown, scale].map(({ label }) => label));
  const show = (state) => {
    source.select.value = state.source;
    layer.select.value = String(state.layer);
    head.select.value = String(state.head);
    layer.select.disabled = state.source === "all" || state.source === "rollout";
    head.select.disabled = state.source !== "head";
    direction.select.value = state.direction;
    base.select.value = state.base;
    scale.select.value = state.scale;
  };
  return { bar, show };
}

function sources(explanation) {
  const found = [["head", "one head"]];
  if (explanation.heads > 1) found.push(["layer", "average over the heads of a layer"]);
  if (explanation.heads * explanation.layers > 1) found.push(["all", "average over all layers and heads"]);
  if (hasRollout(explanation)) found.push(["rollout", "rollout through all layers"]);
  return /** @type {[string, string][]} */ (found);
}

function bases({ poolings, shape }) {
  const hops = poolings ? poolings.length / shape[1] : 0;
  const found = [["average", "the average of all queries"]];
  for (let hop = 0; hop < hops; hop += 1) found.push([String(hop), `pooling, hop ${hop + 1}`]);
  return /** @type {[string, string][]} */ (found);
}
