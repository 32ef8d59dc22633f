/** The matrix of weights: a row for each query, a column for each key. Only cells in sight are painted. */

import { ink, pixels, weightScale } from "./colours.js";
import { element, styled } from "../dom.js";
import { shownOf } from "./pointing.js";
import { drawOn } from "./scene.js";
import { visible } from "./token_lines.js";
import { onFrames } from "./virtual.js";

const LARGEST = 32;
/** Cells from this size on have room for the names of their rows and columns. */
const NAMED = 12;
const NAMES = 96;

/** @implements {import("./view.js").View} */
export class MatrixView {
  /** @param {import("./view.js").Stage} stage */
  constructor(stage) {
    this.stage = stage;
    [this.queries, this.keys] = stage.explanation.shape;
    /** The chosen cell's column; its row is the chosen token. */
    this.key = 0;
    this.cell = 0;
    this.seen = null;
    this.canvas = element("canvas", { class: "attention-canvas" });
    this.space = element("div", { class: "attention-space" }, [this.canvas]);
    this.box = element(
      "div",
      {
        class: "attention-window attention-matrix",
        tabindex: 0,
        role: "application",
        "aria-roledescription": "matrix",
        "aria-label": "A row for each query, a column for each key. Arrow keys move, plus and minus zoom.",
        onkeydown: (event) => this.#pressed(event),
        onpointermove: (event) => this.#hovered(event),
        onpointerleave: () => stage.state.set({ hover: null }),
        onclick: (event) => this.#clicked(event),
      },
      [this.space],
    );
    const zoom = (text, label, factor) =>
      element("button", { type: "button", text, "aria-label": label, onclick: () => this.#zoom(factor) });
    const buttons = [zoom("−", "Smaller cells", 0.5), zoom("+", "Larger cells", 2)];
    this.tools = element("div", { class: "attention-tools" }, buttons);
    stage.panel.append(this.tools, this.box);
    this.frames = onFrames(this.box, () => this.#draw());
  }

  show(seen) {
    this.seen = seen;
    this.#draw();
  }

  destroy() {
    this.frames.destroy();
    this.tools.remove();
    this.box.remove();
  }

  scene() {
    const scene = this.#scene();
    return { ...scene, shapes: scene.shapes.map((shape) => shifted(shape, 34)), height: scene.height + 34 };
  }

  /** Where the cells begin: after the names, if there is room for them. */
  get #start() {
    return this.cell >= NAMED ? NAMES : 0;
  }

  #draw() {
    const width = this.box.clientWidth;
    if (!this.seen || !width) return;
    if (!this.cell) this.#fit(width);
    const size = [this.#start + this.keys * this.cell, this.#start + this.queries * this.cell];
    styled(this.space, { width: `${size[0]}px`, height: `${size[1]}px` });
    drawOn(this.canvas, this.#scene());
  }

  #fit(width) {
    const room = Math.floor(width / this.keys);
    const named = Math.floor((width - NAMES) / this.keys);
    this.cell = Math.max(1, Math.min(LARGEST, named >= NAMED ? named : Math.min(room, NAMED - 1)));
  }

  #scene() {
    const { cell, box } = this;
    const start = this.#start;
    const width = Math.min(box.clientWidth, start + this.keys * cell);
    const height = Math.min(box.clientHeight, start + this.queries * cell);
    const rows = spanIn(box.scrollTop, height - start, cell, this.queries);
    const columns = spanIn(box.scrollLeft, width - start, cell, this.keys);
    const origin = [start + columns[0] * cell - box.scrollLeft, start + rows[0] * cell - box.scrollTop];
    const { dark } = this.seen;
    const background = dark ? "#14161b" : "#ffffff";
    const shapes = [this.#cells(rows, columns, origin), ...this.#crosshair(rows, columns, origin)];
    if (start) shapes.push(...this.#names(rows, columns, origin, width, height, background));
    return { width, height, background, shapes, title: "" };
  }

  #cells(rows, columns, [x, y]) {
    const { matrix, dark, cellAt } = this.seen;
    const [height, width] = [rows[1] - rows[0], columns[1] - columns[0]];
    const values = new Float32Array(height * width);
    for (let row = 0; row < height; row += 1) {
      const start = (rows[0] + row) * this.keys + columns[0];
      values.set(matrix.subarray(start, start + width), row * width);
    }
    const { cell } = this;
    return {
      kind: "cells",
      x,
      y,
      width: width * cell,
      height: height * cell,
      columns: width,
      rows: height,
      pixels: pixels(weightScale(dark), values, cellAt),
    };
  }

  #crosshair(rows, columns, [x, y]) {
    const { token, dark } = this.seen;
    if (token === null) return [];
    const stroke = ink(weightScale(dark), 0);
    const row = y + (token - rows[0]) * this.cell;
    const column = x + (this.key - columns[0]) * this.cell;
    const size = this.cell;
    return [
      { kind: "rect", x, y: row, width: (columns[1] - columns[0]) * size, height: size, stroke, opacity: 0.5 },
      { kind: "rect", x: column, y, width: size, height: (rows[1] - rows[0]) * size, stroke, opacity: 0.5 },
      { kind: "rect", x: column, y: row, width: size, height: size, stroke, thickness: 2 },
    ];
  }

  #names(rows, columns, [x, y], width, height, background) {
    const fill = ink(weightScale(this.seen.dark), 0);
    const size = Math.min(14, this.cell - 1);
    const { tokens, queries = tokens } = this.stage.explanation;
    const name = (names, place) => cut(visible(names[place] ?? ""));
    const shapes = [
      { kind: "rect", x: 0, y: 0, width: NAMES, height, fill: background },
      { kind: "rect", x: 0, y: 0, width, height: NAMES, fill: background },
    ];
    for (let row = rows[0]; row < rows[1]; row += 1) {
      const base = y + (row - rows[0] + 0.5) * this.cell + size / 3;
      if (base < NAMES) continue;
      const text = name(queries, row);
      shapes.push({ kind: "text", x: NAMES - 6, y: base, text, fill, size, anchor: "end" });
    }
    for (let column = columns[0]; column < columns[1]; column += 1) {
      const base = x + (column - columns[0] + 0.5) * this.cell + size / 3;
      if (base < NAMES) continue;
      const text = name(tokens, column);
      shapes.push({ kind: "text", x: base, y: NAMES - 6, text, fill, size, turn: -90 });
    }
    return shapes;
  }

  #zoom(factor) {
    const cell = Math.max(1, Math.min(LARGEST, Math.round(this.cell * factor)));
    const middle = [this.seen?.token ?? 0, this.key];
    this.cell = cell;
    this.#draw();
    this.#scrollTo(...middle);
    this.#draw();
  }

  #scrollTo(row, column) {
    const place = [this.#start + row * this.cell, this.#start + column * this.cell];
    const { box } = this;
    const isIn = (at, scrolled, room) => at - this.#start >= scrolled && at + this.cell <= scrolled + room;
    if (!isIn(place[0], box.scrollTop, box.clientHeight)) box.scrollTop = place[0] - box.clientHeight / 2;
    if (!isIn(place[1], box.scrollLeft, box.clientWidth)) box.scrollLeft = place[1] - box.clientWidth / 2;
  }

  /** Return the row and the column under the pointer. */
  #under(event) {
    const frame = this.box.getBoundingClientRect();
    const x = event.clientX - frame.left - this.box.clientLeft - this.#start;
    const y = event.clientY - frame.top - this.box.clientTop - this.#start;
    if (x < 0 || y < 0) return null;
    const row = Math.floor((y + this.box.scrollTop) / this.cell);
    const column = Math.floor((x + this.box.scrollLeft) / this.cell);
    return row < this.queries && column < this.keys ? [row, column] : null;
  }

  #hovered(event) {
    const found = event.pointerType === "touch" ? null : this.#under(event);
    if (!found) return;
    this.key = found[1];
    this.#read(found[0], false);
    this.stage.state.set({ hover: found[0], column: found[1] });
  }

  #clicked(event) {
    const found = this.#under(event);
    if (!found) return;
    this.key = found[1];
    this.#read(found[0], true);
    this.stage.state.set({ token: found[0], column: found[1], hover: null });
  }

  #pressed(event) {
    if (event.key === "+" || event.key === "-") return void this.#zoom(event.key === "+" ? 2 : 0.5);
    if (event.key === "Escape") return void this.stage.state.set({ token: null, hover: null });
    const [row, column] = [shownOf(this.stage.state) ?? 0, this.key];
    const steps = {
      ArrowUp: [row - 1, column],
      ArrowDown: [row + 1, column],
      ArrowLeft: [row, column - 1],
      ArrowRight: [row, column + 1],
      Home: [row, 0],
      End: [row, this.keys - 1],
      Enter: [row, column],
    };
    const found = steps[event.key];
    if (!found) return;
    event.preventDefault();
    const next = Math.max(0, Math.min(this.queries - 1, found[0]));
    this.key = Math.max(0, Math.min(this.keys - 1, found[1]));
    this.#scrollTo(next, this.key);
    this.#read(next, true);
    this.stage.state.set({ token: next, column: this.key, hover: null });
    this.#draw();
  }

  #read(row, aloud) {
    this.stage.say(this.stage.pair(this.seen, row, this.key), aloud);
  }
}

/** Return the first cell in sight, and the one after the last. */
function spanIn(scrolled, room, cell, count) {
  const first = Math.max(0, Math.floor(scrolled / cell));
  return [first, Math.max(first, Math.min(count, Math.ceil((scrolled + room) / cell)))];
}

function shifted(shape, down) {
  return { ...shape, y: shape.y + down };
}

function cut(name) {
  return name.length > 10 ? `${name.slice(0, 9)}…` : name;
}
