/** A text of coloured tokens in a scrolling window; the arrow keys and the mouse choose one. */

import { colour, ink } from "./colours.js";
import { element, freshId, styled } from "../dom.js";
import { pointing, reached, tokenUnder } from "./pointing.js";
import { FONT } from "./scene.js";
import { inSlices } from "./slices.js";
import { broken, directionOf, measured, visible } from "./token_lines.js";
import { virtualRows } from "./virtual.js";

const LINE = 38;
const GAP = 4;
const SIZE = 16;
const LEAST = 8;

/**
 * @typedef {object} Painting the colours of tokens.
 * @property {ArrayLike<number>} values
 * @property {(value: number) => number} at a value's place on the scale, 0 to 1.
 * @property {import("./colours.js").Scale} scale
 * @property {number | null} token the one that is looked at.
 */

/**
 * @typedef {object} Options
 * @property {string} label what the list is.
 * @property {() => number | null} now the token that is looked at; keys may come faster than it is painted.
 * @property {(token: number | null) => void} hover
 * @property {(token: number | null) => void} choose
 * @property {(token: number) => string} describe a token in words, with its value.
 */

/** Tokens as a list box: lines that are out of sight are not in the page. */
export class TokenText {
  /**
   * @param {HTMLElement} parent
   * @param {string[]} tokens
   * @param {Options} options
   */
  constructor(parent, tokens, options) {
    this.tokens = tokens;
    this.options = options;
    this.lines = [];
    this.widths = [];
    this.painting = null;
    this.id = freshId();
    this.stop = new AbortController();
    this.isJoined = tokens.every((token) => [...token].length === 1);
    this.#build(parent);
    this.#measure();
  }

  /** @param {Painting} painting */
  paint(painting) {
    this.painting = painting;
    this.rows.refresh();
  }

  /** Bring a token into sight. @param {number} token */
  show(token) {
    const line = this.lines.findIndex(([first, end]) => first <= token && token < end);
    if (line >= 0) this.rows.show(line);
  }

  destroy() {
    this.stop.abort();
    this.rows.destroy();
    this.sizes.disconnect();
    this.box.remove();
  }

  /**
   * Return the shapes of the lines in sight.
   * @param {number} top where they begin.
   * @returns {{shapes: import("./scene.js").Shape[], width: number, bottom: number}}
   */
  shapes(top) {
    const first = Math.floor(this.box.scrollTop / LINE);
    const end = Math.min(this.lines.length, first + Math.ceil(this.box.clientHeight / LINE));
    const shapes = [];
    for (let line = first; line < end; line += 1) {
      shapes.push(...this.#lineShapes(line, top + (line - first) * LINE));
    }
    return { shapes, width: this.room + 2 * GAP, bottom: top + (end - first) * LINE };
  }

  #lineShapes(line, y) {
    const shapes = [];
    const isRight = this.direction === "rtl";
    let x = isRight ? this.room : 0;
    for (let token = this.lines[line][0]; token < this.lines[line][1]; token += 1) {
      const width = Math.min(this.widths[token], this.room);
      const left = isRight ? x - width : x;
      shapes.push(...this.#tokenShapes(token, left + GAP, y, width));
      x += (isRight ? -1 : 1) * (width + this.gap);
    }
    return shapes;
  }

  #tokenShapes(token, x, y, width) {
    const { values, at, scale, token: chosen } = this.painting;
    const place = at(values[token]);
    const fill = colour(scale, place);
    const edge = token === chosen ? ink(scale, 0) : undefined;
    const name = { text: visible(this.tokens[token]), fill: ink(scale, place), size: SIZE };
    return [
      { kind: "rect", x, y: y + 4, width, height: LINE - 8, fill, stroke: edge, thickness: 2 },
      { kind: "text", x: x + width / 2, y: y + 25, anchor: "middle", ...name },
    ];
  }

  #build(parent) {
    this.direction = directionOf(this.tokens);
    this.gap = this.isJoined ? 1 : GAP;
    this.drawn = element("div", { role: "none", dir: this.direction, class: "attention-lines" });
    this.box = element(
      "div",
      {
        class: "attention-window attention-text",
        role: "listbox",
        "aria-label": this.options.label,
        ...pointing({ ...this.options, under: tokenUnder, key: (event) => this.#key(event.key) }),
      },
      [this.drawn],
    );
    parent.append(this.box);
    const draw = (first, end) => this.#draw(first, end);
    this.rows = virtualRows(this.box, () => LINE, () => this.lines.length, draw);
    this.sizes = new ResizeObserver(() => this.#break());
    this.sizes.observe(this.box);
  }

  async #measure() {
    const least = this.isJoined ? LEAST : 0;
    const steps = measured(this.tokens.map(visible), `${SIZE}px ${FONT}`, least);
    try {
      this.widths = await inSlices(steps, this.stop.signal);
    } catch {
      return; // taken away before it was measured
    }
    this.#break();
  }

  #break() {
    this.room = Math.max(40, this.box.clientWidth - 2 * GAP);
    this.lines = broken(this.widths, this.room, this.gap);
    styled(this.drawn, { height: `${this.lines.length * LINE}px` });
    this.rows.refresh();
  }

  #draw(first, end) {
    if (!this.painting) return;
    const now = `${first} ${end} ${this.room} ${this.lines.length}`;
    if (now !== this.inSight) {
      const lines = this.lines.slice(first, end).map((line, place) => this.#line(line, first + place));
      this.drawn.replaceChildren(...lines);
      this.inSight = now;
    }
    // In place: a pressed button would otherwise come up over another element, which makes no click.
    for (const node of this.drawn.querySelectorAll("bdi")) this.#colour(node, Number(node.dataset.token));
    const { token } = this.painting;
    const isDrawn = token !== null && this.drawn.querySelector(`#${this.id}-${token}`);
    if (isDrawn) this.box.setAttribute("aria-activedescendant", `${this.id}-${token}`);
    else this.box.removeAttribute("aria-activedescendant");
  }

  #line([first, end], place) {
    const found = element("div", { role: "none", class: "attention-line" });
    styled(found, { top: `${place * LINE}px`, height: `${LINE}px`, gap: `${this.gap}px` });
    for (let token = first; token < end; token += 1) found.append(this.#token(token));
    return found;
  }

  #token(token) {
    const found = element("bdi", {
      id: `${this.id}-${token}`,
      role: "option",
      class: "attention-token",
      "aria-setsize": this.tokens.length,
      "aria-posinset": token + 1,
      "data-token": token,
      text: visible(this.tokens[token]),
    });
    styled(found, { width: `${Math.min(this.widths[token], this.room)}px` });
    return found;
  }

  #colour(node, token) {
    const { values, at, scale, token: chosen } = this.painting;
    const place = at(values[token]);
    node.setAttribute("aria-selected", String(token === chosen));
    node.setAttribute("aria-label", this.options.describe(token));
    styled(node, { "background-color": colour(scale, place), color: ink(scale, place) });
  }

  /** Return the token that a key leads to, and bring it into sight. */
  #key(key) {
    const now = this.options.now();
    const isRight = this.direction === "rtl";
    const steps = { ArrowRight: isRight ? -1 : 1, ArrowLeft: isRight ? 1 : -1 };
    const below = { ArrowDown: 1, ArrowUp: -1 }[key];
    const found = below ? this.#below(now, below) : reached(key, now, this.tokens.length - 1, steps);
    if (typeof found === "number") this.show(found);
    return found;
  }

  /** Return the token of the line before or after whose middle is nearest. */
  #below(now, step) {
    if (now === null) return 0;
    const line = this.lines.findIndex(([first, end]) => first <= now && now < end);
    const other = this.lines[line + step];
    if (!other) return now;
    const middle = this.#middle(now, this.lines[line][0]);
    let found = other[0];
    for (let token = other[0]; token < other[1]; token += 1) {
      const [here, best] = [token, found].map((each) => Math.abs(this.#middle(each, other[0]) - middle));
      if (here < best) found = token;
    }
    return found;
  }

  #middle(token, first) {
    let x = this.widths[token] / 2;
    for (let before = first; before < token; before += 1) x += this.widths[before] + this.gap;
    return x;
  }
}
