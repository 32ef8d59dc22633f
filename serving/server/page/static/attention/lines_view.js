/** Queries on the left, keys on the right, and lines between them as thick as the weights. */

import { colour, ink, weightScale } from "./colours.js";
import { element, freshId, styled } from "../dom.js";
import { line } from "./matrices.js";
import { ofState, pointing, reached, shownOf, tokenUnder } from "./pointing.js";
import { svgOf } from "./scene.js";
import { visible } from "./token_lines.js";
import { virtualRows } from "./virtual.js";

const ROW = 26;
/** Weights below this share of the largest one get no line. */
const FAINT = 0.01;
/** The same where the lines of all queries are drawn at once. */
const FAINT_OF_ALL = 0.15;

/** @implements {import("./view.js").View} */
export class LinesView {
  /** @param {import("./view.js").Stage} stage */
  constructor(stage) {
    this.stage = stage;
    this.id = freshId();
    this.seen = null;
    const [queries, keys] = stage.explanation.shape;
    this.count = Math.max(queries, keys);
    this.left = element("div", {
      role: "listbox",
      class: "attention-column",
      "aria-label": "Queries. Arrow keys choose one, Escape none.",
      ...pointing({ ...ofState(stage.state), under: tokenUnder, key: (event) => this.#key(event.key) }),
    });
    this.right = element("div", { "aria-hidden": "true", class: "attention-column" });
    this.middle = element("div", { class: "attention-between", "aria-hidden": "true" });
    this.inner = element("div", { class: "attention-columns" }, [this.left, this.middle, this.right]);
    this.box = element("div", { class: "attention-window" }, [this.inner]);
    styled(this.inner, { height: `${this.count * ROW}px` });
    stage.panel.append(this.box);
    const draw = (first, end) => this.#draw(first, end);
    this.rows = virtualRows(this.box, () => ROW, () => this.count, draw);
  }

  show(seen) {
    this.seen = seen;
    this.rows.refresh();
  }

  destroy() {
    this.rows.destroy();
    this.box.remove();
  }

  scene() {
    const width = Math.max(300, this.box.clientWidth);
    const first = Math.floor(this.box.scrollTop / ROW);
    const end = Math.min(this.count, first + Math.ceil(this.box.clientHeight / ROW));
    const column = width * 0.32;
    const shapes = this.#curves(first, end, width - 2 * column, column, 34);
    const { tokens, queries = tokens } = this.stage.explanation;
    for (let row = first; row < end; row += 1) {
      const y = 34 + (row - first) * ROW + 18;
      const fill = ink(weightScale(this.seen.dark), 0);
      shapes.push({ kind: "text", x: column - 8, y, text: cut(queries[row]), fill, anchor: "end" });
      shapes.push({ kind: "text", x: width - column + 8, y, text: cut(tokens[row]), fill });
    }
    return { width, height: 34 + (end - first) * ROW + 8, shapes };
  }

  #draw(first, end) {
    if (!this.seen) return;
    const { queries, keys } = this.#weights();
    this.left.replaceChildren(...this.#names(first, end, this.stage.explanation.shape[0], queries, true));
    this.right.replaceChildren(...this.#names(first, end, this.stage.explanation.shape[1], keys, false));
    const width = this.middle.clientWidth;
    const shapes = this.#curves(first, end, width, 0, 0);
    const svg = svgOf({ width, height: (end - first) * ROW, background: "", shapes, title: "" });
    svg.firstChild?.remove(); // no tooltip: the list says it all
    styled(svg, { top: `${first * ROW}px` });
    this.middle.replaceChildren(svg);
    const chosen = this.left.querySelector('[aria-selected="true"]');
    if (chosen) this.left.setAttribute("aria-activedescendant", chosen.id);
    else this.left.removeAttribute("aria-activedescendant");
  }

  /** Return the weights shown beside the queries and beside the keys, null where none is. */
  #weights() {
    const { matrix, token, values, state } = this.seen;
    if (token === null) return { queries: null, keys: values };
    const { shape } = this.stage.explanation;
    const found = line(matrix, shape, token, state.direction);
    return state.direction === "from" ? { queries: null, keys: found } : { queries: found, keys: null };
  }

  #names(first, end, count, weights, isQuery) {
    const { token, dark, at, state } = this.seen;
    const scale = weightScale(dark);
    const chosenHere = isQuery || state.direction === "to";
    const { tokens, queries = tokens } = this.stage.explanation;
    const names = isQuery ? queries : tokens;
    const found = [];
    for (let row = first; row < Math.min(end, count); row += 1) {
      const text = visible(names[row] ?? "");
      const option = isQuery ? this.#option(row, count) : {};
      const node = element("bdi", { class: "attention-name", "data-token": row, text, ...option });
      styled(node, { top: `${row * ROW}px`, height: `${ROW - 2}px` });
      if (weights) {
        const place = at(weights[row]);
        styled(node, { "background-color": colour(scale, place), color: ink(scale, place) });
      }
      if (row === token && chosenHere) node.classList.add("attention-chosen");
      found.push(node);
    }
    return found;
  }

  #option(row, count) {
    return {
      id: `${this.id}-${row}`,
      role: "option",
      "aria-selected": String(row === this.seen.token),
      "aria-label": this.stage.described(this.seen, row),
      "aria-setsize": count,
      "aria-posinset": row + 1,
    };
  }

  /** Return the lines of the token that is looked at; those to rows out of sight end at the edge. */
  #curves(first, end, width, left, top) {
    const { token, state, dark } = this.seen;
    const scale = weightScale(dark);
    const height = (end - first) * ROW;
    const y = (row) => top + Math.max(0, Math.min(height, (row - first + 0.5) * ROW));
    const pairs = token === null ? this.#ofAll(first, end) : this.#ofOne(token, state.direction, first, end);
    const found = pairs.map(([query, key, place]) => {
      const points = [
        [left, y(query)],
        [left + width / 2, y(query)],
        [left + width / 2, y(key)],
        [left + width, y(key)],
      ];
      const stroke = colour(scale, 0.25 + 0.75 * place);
      return { kind: "curve", points, stroke, thickness: 0.5 + 5 * place };
    });
    return found.sort((one, other) => one.thickness - other.thickness);
  }

  /** Return query, key and place on the scale of each line of one token. */
  #ofOne(token, direction, first, end) {
    const { matrix, at } = this.seen;
    const weights = line(matrix, this.stage.explanation.shape, token, direction);
    return outermost(weights, first, end)
      .map((other) => [...(direction === "from" ? [token, other] : [other, token]), at(weights[other])])
      .filter(([, , place]) => place >= FAINT);
  }

  /** Return the same of all queries in sight, where they are another sequence: who wrote what is seen at once. */
  #ofAll(first, end) {
    const { shape, queries } = this.stage.explanation;
    if (!queries) return [];
    const { matrix, cellAt } = this.seen;
    const found = [];
    for (let query = first; query < Math.min(end, shape[0]); query += 1) {
      const weights = line(matrix, shape, query, "from");
      for (const key of outermost(weights, first, end)) found.push([query, key, cellAt(weights[key])]);
    }
    return found.filter(([, , place]) => place >= FAINT_OF_ALL);
  }

  #key(key) {
    const last = this.stage.explanation.shape[0] - 1;
    const found = reached(key, shownOf(this.stage.state), last, { ArrowDown: 1, ArrowUp: -1 });
    if (typeof found === "number") this.rows.show(found);
    return found;
  }
}

/**
 * Return the rows in sight, and of those above and below the one with the largest weight each: lines to the others
 * end at the same place, and lie under its line.
 */
function outermost(weights, first, end) {
  const found = [];
  const [above, below] = [
    [0, Math.min(first, weights.length)],
    [end, weights.length],
  ];
  for (const [start, stop] of [above, below]) {
    let most = start;
    for (let row = start; row < stop; row += 1) if (weights[row] > weights[most]) most = row;
    if (start < stop) found.push(most);
  }
  for (let row = first; row < Math.min(end, weights.length); row += 1) found.push(row);
  return found;
}

function cut(name) {
  const shown = visible(name ?? "");
  return shown.length > 24 ? `${shown.slice(0, 23)}…` : shown;
}
