/** An image whose patches are as bright as their weights, beside the weights alone. */

import { colour, ink, weightScale } from "./colours.js";
import { element, styled } from "./dom.js";
import { paint } from "./scene.js";
import { onFrames } from "./virtual.js";

const LARGEST = 420;
const GAP = 16;
/** How much of a patch without any weight is still seen. */
const LEAST = 0.15;

/**
 * @param {import("./view.js").Stage} stage
 * @returns {import("./view.js").View}
 */
export function imageView(stage) {
  return new Picture(stage);
}

class Picture {
  constructor(stage) {
    this.stage = stage;
    this.seen = null;
    const { values, patches, shape } = stage.explanation;
    this.image = values;
    this.patches = patches ?? squares(shape[1]);
    this.cells = rgba(values);
    this.columns = this.patches.filter((side, place) => place % 4 === 0 && side === 0).length;
    this.canvas = element("canvas", { class: "attention-canvas" });
    this.box = element(
      "div",
      {
        class: "attention-window attention-image",
        role: "slider",
        tabindex: 0,
        "aria-label": "Patch. Arrow keys choose one, Escape none.",
        "aria-valuemin": 0,
        "aria-valuemax": shape[1] - 1,
        onkeydown: (event) => this.#key(event),
        onpointermove: (event) => this.#pointed(event, "hover"),
        onpointerleave: () => stage.state.set({ hover: null }),
        onclick: (event) => this.#pointed(event, "token"),
      },
      [this.canvas],
    );
    stage.panel.append(this.box);
    this.frames = onFrames(this.box, () => this.#draw());
  }

  show(seen) {
    this.seen = seen;
    this.box.setAttribute("aria-valuenow", String(seen.token ?? 0));
    this.box.setAttribute("aria-valuetext", seen.token === null ? "none" : this.stage.described(seen, seen.token));
    this.#draw();
  }

  destroy() {
    this.frames.destroy();
    this.box.remove();
  }

  scene() {
    const { width, height, shapes } = this.#scene();
    return { width: Math.max(width, 420), height: height + 34, shapes: shapes.map((shape) => ({ ...shape, y: shape.y + 34 })) };
  }

  #draw() {
    if (!this.seen || !this.box.clientWidth) return;
    const scene = this.#scene();
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(scene.width * ratio);
    this.canvas.height = Math.round(scene.height * ratio);
    styled(this.canvas, { width: `${scene.width}px`, height: `${scene.height}px` });
    const context = this.canvas.getContext("2d");
    context.scale(ratio, ratio);
    paint(context, scene);
  }

  /** Return the two pictures, side by side, or one above the other where the page is narrow. */
  #scene() {
    const { height, width } = this.image;
    const room = this.box.clientWidth - 4;
    const isWide = room >= 2 * 200 + GAP;
    const factor = Math.min(LARGEST / Math.max(height, width), (isWide ? (room - GAP) / 2 : room) / width);
    this.size = [width * factor, height * factor];
    this.second = isWide ? [this.size[0] + GAP, 0] : [0, this.size[1] + GAP];
    const shapes = [
      { kind: "cells", x: 0, y: 0, width: this.size[0], height: this.size[1], columns: width, rows: height, pixels: this.cells },
    ];
    for (let patch = 0; patch < this.patches.length / 4; patch += 1) shapes.push(...this.#patch(patch));
    return {
      width: this.second[0] + this.size[0],
      height: this.second[1] + this.size[1],
      background: "",
      shapes,
      title: "",
    };
  }

  #patch(patch) {
    const { values, at, dark, token } = this.seen;
    const scale = weightScale(dark);
    const place = at(values[patch]);
    const { x, y, width, height } = this.#frame(patch);
    const [right, below] = this.second;
    const shapes = [
      { kind: "rect", x, y, width, height, fill: "#000", opacity: (1 - LEAST) * (1 - place) },
      { kind: "rect", x: x + right, y: y + below, width, height, fill: colour(scale, place) },
    ];
    if (patch === token) {
      shapes.push({ kind: "rect", x, y, width, height, stroke: "#fff", thickness: 3 });
      shapes.push({ kind: "rect", x, y, width, height, stroke: "#000", thickness: 1 });
      const stroke = ink(scale, 0);
      shapes.push({ kind: "rect", x: x + right, y: y + below, width, height, stroke, thickness: 2 });
    }
    return shapes;
  }

  #frame(patch) {
    const [top, left, bottom, right] = this.patches.subarray(4 * patch, 4 * patch + 4);
    const [width, height] = this.size;
    return { x: left * width, y: top * height, width: (right - left) * width, height: (bottom - top) * height };
  }

  #pointed(event, what) {
    if (!this.size || (what === "hover" && event.pointerType === "touch")) return;
    const frame = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - frame.left, event.clientY - frame.top];
    const isSecond = x >= this.second[0] && y >= this.second[1];
    const at = isSecond ? [x - this.second[0], y - this.second[1]] : [x, y];
    for (let patch = 0; patch < this.patches.length / 4; patch += 1) {
      const place = this.#frame(patch);
      const isIn = at[0] >= place.x && at[0] < place.x + place.width && at[1] >= place.y && at[1] < place.y + place.height;
      if (isIn) return void this.stage.state.set({ hover: null, [what]: patch });
    }
  }

  #key(event) {
    const last = this.patches.length / 4 - 1;
    const now = this.seen?.token ?? 0;
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.columns, ArrowUp: -this.columns };
    if (event.key === "Escape") this.stage.state.set({ token: null, hover: null });
    else if (event.key === "Home" || event.key === "End") this.stage.state.set({ token: event.key === "Home" ? 0 : last });
    else if (event.key in steps) {
      const next = now + steps[event.key];
      const token = this.seen?.token === null ? 0 : next < 0 || next > last ? now : next;
      this.stage.state.set({ token, hover: null });
    } else return;
    event.preventDefault();
  }
}

/** Return patches of a square grid, where the model does not say where they are. */
function squares(count) {
  const side = Math.max(1, Math.round(Math.sqrt(count)));
  const found = new Float32Array(4 * count);
  for (let patch = 0; patch < count; patch += 1) {
    const [row, column] = [Math.floor(patch / side), patch % side];
    found.set([row / side, column / side, (row + 1) / side, (column + 1) / side], 4 * patch);
  }
  return found;
}

/** Return an image's pixels with four bytes each. */
function rgba({ pixels, height, width, channels }) {
  const found = new Uint8ClampedArray(4 * height * width);
  for (let place = 0; place < height * width; place += 1) {
    for (let channel = 0; channel < 3; channel += 1) {
      found[4 * place + channel] = pixels[place * channels + (channels === 1 ? 0 : channel)];
    }
    found[4 * place + 3] = 255;
  }
  return found;
}
