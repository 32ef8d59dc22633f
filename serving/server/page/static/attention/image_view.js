/** An image whose patches are as bright as their weights, beside the weights alone. */

import { colour, ink, weightScale } from "./colours.js";
import { element } from "../dom.js";
import { reached, slider, tell } from "./pointing.js";
import { drawOn } from "./scene.js";
import { onFrames } from "./virtual.js";

const LARGEST = 420;
const GAP = 16;
/** How much of a patch without any weight is still seen. */
const LEAST = 0.15;

/** @implements {import("./view.js").View} */
export class ImageView {
  /** @param {import("./view.js").Stage} stage */
  constructor(stage) {
    this.stage = stage;
    this.seen = null;
    const { values, patches, shape } = stage.explanation;
    this.image = values;
    this.patches = patches ?? squares(shape[1]);
    this.cells = rgba(values);
    this.columns = this.patches.filter((side, place) => place % 4 === 0 && side === 0).length;
    this.canvas = element("canvas", { class: "attention-canvas" });
    const under = (event) => this.#under(event);
    const key = (...pressed) => this.#key(...pressed);
    this.box = slider(stage, "Patch", under, key, this.canvas);
    stage.panel.append(this.box);
    this.frames = onFrames(this.box, () => this.#draw());
  }

  show(seen) {
    this.seen = seen;
    tell(this.box, this.stage, seen);
    this.#draw();
  }

  destroy() {
    this.frames.destroy();
    this.box.remove();
  }

  scene() {
    const { width, height, shapes } = this.#scene();
    const lower = shapes.map((shape) => ({ ...shape, y: shape.y + 34 }));
    return { width: Math.max(width, 420), height: height + 34, shapes: lower };
  }

  #draw() {
    if (!this.seen || !this.box.clientWidth) return;
    drawOn(this.canvas, this.#scene());
  }

  /** Return the two pictures, side by side, or one above the other where the page is narrow. */
  #scene() {
    const { height, width } = this.image;
    const room = this.box.clientWidth - 4;
    const isWide = room >= 2 * 200 + GAP;
    const factor = Math.min(LARGEST / Math.max(height, width), (isWide ? (room - GAP) / 2 : room) / width);
    this.size = [width * factor, height * factor];
    this.second = isWide ? [this.size[0] + GAP, 0] : [0, this.size[1] + GAP];
    const cells = { kind: "cells", columns: width, rows: height, pixels: this.cells };
    const shapes = [{ ...cells, x: 0, y: 0, width: this.size[0], height: this.size[1] }];
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
    const [x, y] = [Math.round(left * width), Math.round(top * height)];
    return { x, y, width: Math.round(right * width) - x, height: Math.round(bottom * height) - y };
  }

  #under(event) {
    if (!this.size) return undefined;
    const frame = this.canvas.getBoundingClientRect();
    let [x, y] = [event.clientX - frame.left, event.clientY - frame.top];
    const [right, below] = this.second;
    if (x >= right && y >= below) [x, y] = [x - right, y - below];
    for (let patch = 0; patch < this.patches.length / 4; patch += 1) {
      const place = this.#frame(patch);
      const isIn = x >= place.x && x < place.x + place.width && y >= place.y && y < place.y + place.height;
      if (isIn) return patch;
    }
    return undefined;
  }

  #key(key, now, last) {
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.columns, ArrowUp: -this.columns };
    return reached(key, now, last, steps);
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
