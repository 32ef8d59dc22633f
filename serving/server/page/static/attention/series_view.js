/** The curves of a series, and under them the weight of each position: a window of frames. */

import { colour, ink, weightScale } from "./colours.js";
import { element, styled } from "../dom.js";
import { reached, slider, tell } from "./pointing.js";
import { svgOf } from "./scene.js";
import { onFrames } from "./virtual.js";

/** Features shown, each in a lane of its own. */
const MOST_LANES = 8;
const CURVES = 220;
const BARS = 72;
const NARROWEST = 6;
const TOP = 8;

/** @implements {import("./view.js").View} */
export class SeriesView {
  /** @param {import("./view.js").Stage} stage */
  constructor(stage) {
    this.stage = stage;
    this.seen = null;
    const { values, features = 1, shape, frames, rate } = stage.explanation;
    this.features = features;
    this.rate = rate;
    const count = Math.floor(values.length / features);
    // Only the begin of a long sound has positions.
    this.count = rate && frames ? Math.min(count, frames[2 * shape[1] - 1]) : count;
    this.positions = shape[1];
    this.lanes = Math.min(features, MOST_LANES);
    this.ranges = Array.from({ length: this.lanes }, (_, feature) => {
      return extremes(values, features, feature, 0, this.count);
    });
    this.inner = element("div", { class: "attention-space" });
    const under = (event) => this.#under(event);
    const key = (...pressed) => this.#key(...pressed);
    this.box = slider(stage, "Position", under, key, this.inner);
    stage.panel.append(this.box);
    const cuts = [
      features > MOST_LANES && `The first ${MOST_LANES} of ${features} features.`,
      this.count < count && `The first ${this.#named(this.count)} of ${this.#named(count)}.`,
    ].filter(Boolean);
    if (cuts.length) {
      this.note = element("p", { text: cuts.join(" ") });
      stage.panel.append(this.note);
    }
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
    this.note?.remove();
  }

  scene() {
    const width = this.box.clientWidth;
    return { width, height: 34 + this.#height, shapes: this.#shapes(width, 34 + TOP) };
  }

  get #height() {
    return TOP + CURVES + BARS + 26;
  }

  /** Pixels of the whole series. */
  get #length() {
    return Math.max(this.box.clientWidth, this.positions * NARROWEST);
  }

  #draw() {
    const width = this.box.clientWidth;
    if (!this.seen || !width) return;
    styled(this.inner, { width: `${this.#length}px`, height: `${this.#height}px` });
    const shapes = this.#shapes(width, TOP);
    const svg = svgOf({ width, height: this.#height, background: "", shapes, title: "" });
    svg.firstChild?.remove(); // no tooltip: the box has a name
    svg.setAttribute("class", "attention-sticky");
    svg.setAttribute("aria-hidden", "true");
    this.inner.replaceChildren(svg);
  }

  /** Return the first frame of a position, and the one after its last. */
  #span(position) {
    const { frames } = this.stage.explanation;
    if (frames) return [frames[2 * position], frames[2 * position + 1]];
    const step = this.count / this.positions;
    return [position * step, (position + 1) * step];
  }

  #named(frame) {
    return this.rate ? `${(frame / this.rate).toFixed(2)} s` : `frame ${frame}`;
  }

  #x(frame) {
    return (frame / Math.max(1, this.count)) * this.#length - this.box.scrollLeft;
  }

  #shapes(width, top) {
    const shapes = [];
    const fill = ink(weightScale(this.seen.dark), 0);
    for (let position = 0; position < this.positions; position += 1) {
      const [first, end] = this.#span(position).map((frame) => this.#x(frame));
      if (end >= 0 && first <= width) shapes.push(...this.#bar(position, first, end, top));
    }
    for (let lane = 0; lane < this.lanes; lane += 1) {
      for (const points of this.#curve(lane, width, top)) {
        // A loud sound would hide the columns behind it.
        shapes.push({
          kind: "line",
          points,
          stroke: fill,
          thickness: 1.5,
          opacity: this.rate ? 0.5 : undefined,
        });
      }
    }
    const base = top + CURVES + BARS + 16;
    const [from, to] = [0, width].map((x) => ((x + this.box.scrollLeft) / this.#length) * this.count);
    shapes.push({ kind: "text", x: 2, y: base, text: this.#named(Math.floor(from)), fill, size: 12 });
    const end = Math.min(this.count, Math.ceil(to));
    const last = this.#named(this.rate ? end : end - 1);
    shapes.push({ kind: "text", x: width - 2, y: base, text: last, fill, size: 12, anchor: "end" });
    return shapes;
  }

  /** Return the column behind the curves and the bar under them, of one position. */
  #bar(position, first, end, top) {
    const { values, at, dark, token } = this.seen;
    const scale = weightScale(dark);
    const place = at(values[position]);
    const [x, width] = [first + 0.5, Math.max(1, end - first - 1)];
    const height = place * BARS;
    const y = top + CURVES + BARS - height;
    const shapes = [
      { kind: "rect", x, y: top, width, height: CURVES, fill: colour(scale, place * 0.6), opacity: 0.6 },
      { kind: "rect", x, y, width, height, fill: colour(scale, 0.3 + 0.7 * place) },
    ];
    if (position === token) {
      const stroke = ink(scale, 0);
      shapes.push({ kind: "rect", x, y: top, width, height: CURVES + BARS, stroke, thickness: 2 });
    }
    return shapes;
  }

  /** Return a feature's lines in sight, broken where values are missing; each pixel keeps its extremes. */
  #curve(lane, width, top) {
    const { values } = this.stage.explanation;
    const [low, high] = this.ranges[lane];
    const height = CURVES / this.lanes;
    const y = (value) => top + height * (lane + 0.94 - 0.88 * ((value - low) / (high - low || 1)));
    const first = Math.max(0, Math.floor((this.box.scrollLeft / this.#length) * this.count));
    const end = Math.min(this.count, Math.ceil(((this.box.scrollLeft + width) / this.#length) * this.count));
    const step = Math.max(1, Math.floor((end - first) / width));
    const lines = [[]];
    for (let frame = first; frame < end; frame += step) {
      const [least, most] = extremes(values, this.features, lane, frame, Math.min(end, frame + step));
      if (Number.isFinite(least)) {
        const x = this.#x(frame + step / 2);
        lines.at(-1).push([x, y(least)], ...(most > least ? [[x, y(most)]] : []));
      } else if (lines.at(-1).length) lines.push([]);
    }
    return lines.filter((points) => points.length > 1);
  }

  #under(event) {
    const x = event.clientX - this.box.getBoundingClientRect().left - this.box.clientLeft;
    for (let position = 0; position < this.positions; position += 1) {
      const [first, end] = this.#span(position).map((frame) => this.#x(frame));
      if (x >= first && x < end) return position;
    }
    return undefined;
  }

  #key(key, now, last) {
    const found = reached(key, now, last, { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 });
    if (typeof found === "number") {
      const [first, end] = this.#span(found).map((frame) => this.#x(frame));
      const { clientWidth } = this.box;
      if (first < 0 || end > clientWidth) this.box.scrollLeft += first - clientWidth / 2;
    }
    return found;
  }
}

function extremes(values, features, feature, first, end) {
  let [low, high] = [Infinity, -Infinity];
  for (let frame = first; frame < end; frame += 1) {
    const value = values[frame * features + feature];
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [low, high];
}
