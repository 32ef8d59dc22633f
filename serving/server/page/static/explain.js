// The attention behind an answer: asked for when somebody wants to see it, and shown by the viewer.

import { answering, modelNamed } from "./catalog.js";
import { element, fill } from "./dom.js";
import { KINDS } from "./inputs/kinds.js";

/** Buttons, and a part of the page that then shows what decided the answer to a row, or what it attends to. */
export function attentionPart() {
  const place = element("div");
  const trouble = element("p", { class: "trouble", role: "alert" });
  const why = element("button", { type: "button", onclick: () => show("words") });
  const button = element("button", { type: "button", onclick: () => show() }, "What does it attend to?");
  const buttons = element("div", { class: "inline" }, why, button);
  const heading = element("h2", { tabindex: -1 }, "Behind the answer");
  const box = element("section", { class: "panel" }, heading, trouble, place);
  let asked = null;
  let shown = null;
  let controller = null;

  function clear() {
    controller?.abort();
    shown?.destroy();
    shown = null;
    box.hidden = true;
    trouble.textContent = "";
    fill(place);
  }

  async function show(tab) {
    clear();
    controller = new AbortController();
    const { signal } = controller;
    why.disabled = button.disabled = true;
    try {
      const mount = await explained(asked, signal);
      box.hidden = false; // before it is drawn: what is hidden has no size
      if (!signal.aborted) shown = mount(place, { tab });
    } catch (error) {
      if (!signal.aborted) trouble.textContent = `The attention cannot be shown: ${error.message}`;
    } finally {
      why.disabled = button.disabled = false;
    }
    if (signal.aborted) return;
    box.hidden = false;
    heading.focus({ preventScroll: true });
    box.scrollIntoView({ block: "start" }); // it may be below the window
  }

  clear();
  return {
    buttons,
    element: box,
    /** Offer the attention in a row of the last call; null for no call. */
    offer(last, row) {
      clear();
      asked = { last, row };
      buttons.hidden = !last || !canExplain(last);
      why.hidden = buttons.hidden || !canLeaveOut(last);
      button.textContent = isAligned(last) ? "What was each piece written from?" : "What does it attend to?";
      const isLetters = last?.described.card?.config?.tokens === "characters";
      why.textContent = isLetters ? "Which letters decided it?" : "Which words decided it?";
    },
  };
}

/** Ask for the weights, and return the function that shows them in an element. */
async function explained(asked, signal) {
  // Loaded only now: most people ask without looking, and the page is there sooner.
  const [{ explain }, { mountAttention }] = await Promise.all([
    import("./attention/fetch.js"),
    import("./attention/view.js"),
  ]);
  const { call, version } = asked.last; // the latest may be another by now
  const input = await inputOf(asked);
  checkServed(call.target.model, version);
  const explanation = await explain(call.target.model, version, input, signal);
  return (place, first) => mountAttention(place, explanation, first);
}

function checkServed(model, version) {
  const served = modelNamed(model);
  if (served && !answering(served).includes(version))
    throw new Error(`version ${version}, which gave this answer, is not served any more. Ask again.`);
}

function canExplain({ described, way, call }) {
  const { explain } = described.signatures;
  const hasWeights = explain && ("weights" in explain.outputs || "weights_0" in explain.outputs);
  return Boolean(hasWeights && KINDS[way.kind].explained && call.asked.inputs);
}

/** Return true for a model that tells from which pieces of a text it wrote those of its answer. */
function isAligned(last) {
  return Boolean(last && "target_tokens" in (last.described.signatures.explain?.outputs ?? {}));
}

function canLeaveOut({ described, way }) {
  return Boolean(KINDS[way.kind].hasWords && described.signatures.classify);
}

/** Return a row as the viewer asks for it. */
function inputOf({ last: { call, described, way }, row }) {
  const { inputs, tokens } = call.asked;
  const values = Object.fromEntries(Object.entries(inputs).map(([name, column]) => [name, column[row]]));
  return KINDS[way.kind].explained(values[way.input], tokens?.[row], described.signatures, values);
}
