/** Small matrices of all heads and layers, and of their averages, to choose one from. */

import { ink, pixels, weightScale } from "./colours.js";
import { element } from "../dom.js";
import { hasRollout, largest, shrunk } from "./matrices.js";
import { cellCanvas } from "./scene.js";
import { inSlices, nextTask } from "./slices.js";

/** Cells of a small matrix on each side, at most. */
const SIDE = 64;

/** @implements {import("./view.js").View} */
export class HeadsView {
  /** @param {import("./view.js").Stage} stage */
  constructor(stage) {
    this.stage = stage;
    this.seen = null;
    /** Small matrices that were in sight, by button. */
    this.drawn = new Map();
    this.queue = Promise.resolve();
    this.stop = new AbortController();
    this.watch = new IntersectionObserver((entries) => this.#inSight(entries), { rootMargin: "100px" });
    const { layers, heads } = stage.explanation;
    this.rows = Array.from({ length: layers }, (_, layer) => this.#row(layer, heads));
    this.box = element("div", { class: "attention-window attention-heads" }, [...this.rows, this.#whole()]);
    stage.panel.append(this.box);
  }

  show(seen) {
    const isOther = this.seen?.dark !== seen.dark || this.seen?.state.scale !== seen.state.scale;
    this.seen = seen;
    for (const button of this.box.querySelectorAll("button")) {
      button.setAttribute("aria-pressed", String(isShown(button.dataset, seen.state)));
    }
    if (isOther) for (const [button, small] of this.drawn) this.#paint(button, small);
  }

  destroy() {
    this.stop.abort();
    this.watch.disconnect();
    this.box.remove();
  }

  scene() {
    const shapes = [];
    const fill = ink(weightScale(this.seen.dark), 0);
    const [size, gap] = [72, 10];
    let width = 0;
    let y = 34;
    for (const row of [...this.box.children]) {
      [...row.querySelectorAll("button")].forEach((button, place) => {
        const x = gap + place * (size + gap);
        const small = this.drawn.get(button);
        if (small) shapes.push({ ...this.#cells(small), x, y, width: size, height: size });
        const text = button.querySelector("span").textContent;
        const under = { x: x + size / 2, y: y + size + 14, size: 12, anchor: "middle" };
        shapes.push({ kind: "text", text, fill, ...under });
        width = Math.max(width, x + size + gap);
      });
      y += size + 26;
    }
    return { width: Math.max(width, 420), height: y, shapes };
  }

  #row(layer, heads) {
    const name = `Layer ${layer + 1}`;
    const buttons = Array.from({ length: heads }, (_, head) =>
      this.#button({ source: "head", layer, head }, `${layer + 1}·${head + 1}`, `${name}, head ${head + 1}`),
    );
    if (heads > 1) {
      const asked = { source: "layer", layer, head: 0 };
      buttons.push(this.#button(asked, `${layer + 1}·mean`, `${name}, average over heads`));
    }
    return rowOf(name, buttons);
  }

  #whole() {
    const place = { layer: 0, head: 0 };
    const buttons = [this.#button({ source: "all", ...place }, "all", "Average over all heads")];
    if (hasRollout(this.stage.explanation)) {
      buttons.push(this.#button({ source: "rollout", ...place }, "rollout", "Attention rollout"));
    }
    return rowOf("All layers", buttons);
  }

  #button(asked, caption, label) {
    const found = element(
      "button",
      {
        type: "button",
        "aria-label": label,
        "aria-pressed": "false",
        onclick: () => this.stage.state.set(chosen(asked)),
        "data-source": asked.source,
        "data-layer": asked.layer,
        "data-head": asked.head,
      },
      [element("canvas", { width: SIDE, height: SIDE }), element("span", { text: caption })],
    );
    this.watch.observe(found);
    return found;
  }

  #inSight(entries) {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting || this.drawn.has(target)) continue;
      this.watch.unobserve(target);
      this.queue = this.queue.then(() => this.#small(target)).catch(() => {});
    }
  }

  /** Compute and paint one small matrix, after the ones before it. */
  async #small(button) {
    this.stop.signal.throwIfAborted();
    const { source, layer, head } = button.dataset;
    const { matrices, explanation } = this.stage;
    const matrix = await matrices.of({ source, layer: Number(layer), head: Number(head) });
    await nextTask();
    const small = await inSlices(shrinking(matrix, explanation.shape), this.stop.signal);
    this.drawn.set(button, small);
    this.#paint(button, small);
  }

  #paint(button, small) {
    if (!this.seen) return; // `show` paints it
    const canvas = button.querySelector("canvas");
    const context = canvas.getContext("2d");
    context.imageSmoothingEnabled = false;
    context.drawImage(cellCanvas(this.#cells(small)), 0, 0, SIDE, SIDE);
  }

  #cells({ values, rows, columns, most }) {
    const { dark, state } = this.seen;
    const at = (value) => (most ? (value / most) ** (state.scale === "root" ? 0.5 : 1) : 0);
    return { kind: "cells", columns, rows, pixels: pixels(weightScale(dark), values, at) };
  }
}

function rowOf(label, buttons) {
  return element("div", { class: "attention-row", role: "group", "aria-label": label }, buttons);
}

function* shrinking(matrix, shape) {
  const small = shrunk(matrix, shape, SIDE);
  yield;
  return { ...small, most: largest(small.values) };
}

/** Return what changes when a small matrix is chosen: averages leave layer and head as they are. */
function chosen({ source, layer, head }) {
  if (source === "head") return { source, layer, head };
  return source === "layer" ? { source, layer } : { source };
}

function isShown({ source, layer, head }, state) {
  if (source !== state.source) return false;
  if (source === "all" || source === "rollout") return true;
  return Number(layer) === state.layer && (source === "layer" || Number(head) === state.head);
}
