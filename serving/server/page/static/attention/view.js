/** Attention weights over one input: several views of one state. */

import { isDark, ink, weightScale } from "./colours.js";
import { choices, tabList } from "./controls.js";
import { element, percent } from "../dom.js";
import { HeadsView } from "./heads_view.js";
import { ImageView } from "./image_view.js";
import { LinesView } from "./lines_view.js";
import { Matrices, largest, line, received } from "./matrices.js";
import { MatrixView } from "./matrix_view.js";
import { ALIGNED, Readout, SENTENCES, scaled, titleOf, topRows, weight } from "./readout.js";
import { saveHtml, savePng, saveSvg } from "./save.js";
import { SeriesView } from "./series_view.js";
import { Store } from "./store.js";
import { TextView } from "./text_view.js";
import { visible } from "./token_lines.js";
import { WordsView, leftOutTitle } from "./words_view.js";

/** @typedef {import("./matrices.js").Explanation} Explanation */

/**
 * @typedef {object} Seen what a view shows.
 * @property {import("./store.js").State} state
 * @property {Float32Array} matrix
 * @property {number | null} token the one that is looked at.
 * @property {Float32Array} values of each position, for that token.
 * @property {number} most the largest of them.
 * @property {number} mostOfAll the largest of the matrix.
 * @property {(value: number) => number} at a value's place on the scale of colours.
 * @property {(value: number) => number} cellAt the same for cells of the matrix.
 * @property {boolean} dark
 */

/**
 * @typedef {object} Stage what a view has to work with.
 * @property {HTMLElement} panel where it draws.
 * @property {Explanation} explanation
 * @property {Matrices} matrices
 * @property {Store} state
 * @property {Record<string, any>} kept what views keep while others are shown.
 * @property {(text: string, aloud: boolean) => void} say
 * @property {(seen: Seen | null, token: number) => string} described
 * @property {(seen: Seen | null, query: number, key: number) => string} pair
 */

/**
 * @typedef {object} View
 * @property {(seen: Seen) => void} show
 * @property {() => {width: number, height: number, shapes: object[]}} scene what is in sight.
 * @property {() => void} destroy
 * @property {() => object} [told] `title`, `sentences` and `rows` of a saved page, if not of the weights.
 */

const VIEWS = {
  text: ["Text", TextView],
  series: ["Series", SeriesView],
  sound: ["Sound", SeriesView],
  image: ["Image", ImageView],
  lines: ["Lines", LinesView],
  matrix: ["Matrix", MatrixView],
  heads: ["All heads", HeadsView],
  words: ["", WordsView], // its title tells what is left out
};

/**
 * Show attention weights.
 * @param {HTMLElement} parent where.
 * @param {Explanation} explanation
 * @param {{tab?: string}} [first] the view to begin with, if there is one; "words" then asks the model at once.
 * @returns {{destroy: () => void}}
 */
export function mountAttention(parent, explanation, { tab } = {}) {
  const mounted = new Attention(explanation, tab);
  parent.append(mounted.root);
  mounted.begin();
  return { destroy: () => mounted.destroy() };
}

class Attention {
  constructor(explanation, tab) {
    this.explanation = explanation;
    this.matrices = new Matrices(explanation);
    this.tabs = tabsOf(explanation);
    this.state = new Store(firstState(explanation, this.tabs.includes(tab) ? tab : this.tabs[0]));
    this.readout = new Readout();
    this.kept = { asksWords: tab === "words" };
    this.asked = 0;
    /** Largest weights of matrices. */
    this.mosts = new WeakMap();
    this.panel = element("div", { role: "tabpanel", class: "attention-panel" });
    const titles = this.tabs.map((name) => [name, VIEWS[name][0] || leftOutTitle(explanation)]);
    this.tabBar = tabList(titles, this.panel, (tab) => this.state.set({ tab }));
    this.choices = choices(explanation, this.state);
    const { title, below } = this.readout;
    const parts = [this.#note(), this.tabBar.list, this.choices.bar, title, this.panel, below, this.#saving()];
    this.root = element("section", { class: "attention", "aria-label": "Attention" }, parts);
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.restyle = () => this.#show();
    this.themes = new MutationObserver(this.restyle);
  }

  begin() {
    this.state.on(() => this.#show());
    this.scheme.addEventListener("change", this.restyle);
    this.themes.observe(document.documentElement, { attributes: true });
    const { tokens, queries = tokens, layers } = this.explanation;
    if (tokens.length && queries.length && layers) this.#show();
    else this.readout.say("There is nothing to show: the input has no positions.", true);
  }

  destroy() {
    this.view?.destroy();
    this.state.destroy();
    this.matrices.destroy();
    this.themes.disconnect();
    this.scheme.removeEventListener("change", this.restyle);
    this.root.remove();
  }

  async #show() {
    const state = this.state.get();
    this.asked += 1;
    const asked = this.asked;
    this.choices.show(state);
    this.#switch(state.tab);
    try {
      const matrix = await this.#matrix(state);
      if (asked !== this.asked) return; // another choice came in between
      this.seen = this.#seen(state, matrix);
      this.readout.show(this.seen, this.explanation, state.tab === "matrix");
      this.view.show(this.seen);
      this.#hint(state);
    } catch (error) {
      const isGone = asked !== this.asked || this.matrices.stop.signal.aborted;
      if (!isGone) this.readout.say(`No weights: ${error.message}`, true);
    }
  }

  #hint({ token, hover, tab }) {
    if (tab === "sound" && this.seen.token !== null) return this.#sayShare(hover === null);
    if (hover !== null || tab === "words" || (tab === "matrix" && token !== null)) return;
    const none = "Point at a position, or choose one with the arrow keys.";
    this.readout.say(token === null ? none : "Escape: back to the average.", false);
  }

  /** Say how much attention the position that is looked at gets of all. */
  #sayShare(aloud) {
    const { token, matrix } = this.seen;
    const share = percent(received(matrix, this.explanation.shape)[token]);
    this.readout.say(
      `${this.#name(token)} gets ${share} of the attention, on average over all positions.`,
      aloud,
    );
  }

  /** Return the matrix of a state; the last one is kept, since a pointer moves over it. */
  async #matrix({ source, layer, head }) {
    const key = `${source} ${layer} ${head}`;
    if (this.last?.key !== key) this.last = { key, matrix: await this.matrices.of({ source, layer, head }) };
    return this.last.matrix;
  }

  #switch(tab) {
    if (tab === this.tab) return;
    this.tab = tab;
    this.view?.destroy();
    this.tabBar.show(tab);
    this.root.setAttribute("data-view", tab);
    this.readout.say("", false);
    this.view = new VIEWS[tab][1](this.#stage());
  }

  #stage() {
    return {
      panel: this.panel,
      explanation: this.explanation,
      matrices: this.matrices,
      state: this.state,
      kept: this.kept,
      say: (text, aloud) => this.readout.say(text, aloud),
      described: (seen, token) => this.#described(seen, token),
      pair: (seen, query, key) => {
        const value = seen ? weight(seen.matrix[query * this.explanation.shape[1] + key]) : "";
        return `${this.#name(query, this.explanation.queries)} → ${this.#name(key)}: ${value}`;
      },
    };
  }

  /** Return a position and its weight; a query of another sequence has none. */
  #described(seen, token) {
    if (this.explanation.queries) return this.#name(token, this.explanation.queries);
    return `${this.#name(token)}: ${seen ? weight(seen.values[token] ?? 0) : ""}`;
  }

  /** Return a position's name, told apart from others of the same name by its number. */
  #name(token, names = this.explanation.tokens) {
    const name = visible(names[token] ?? "");
    return ["text", "tokens"].includes(this.explanation.kind) ? `${name} (${token + 1})` : name;
  }

  #seen(state, matrix) {
    const { shape } = this.explanation;
    const token = state.hover ?? state.token;
    const values = token === null ? this.#base(state, matrix) : line(matrix, shape, token, state.direction);
    if (!this.mosts.has(matrix)) this.mosts.set(matrix, largest(matrix));
    const [most, mostOfAll] = [largest(values), this.mosts.get(matrix)];
    const at = (value) => scaled(most ? value / most : 0, state);
    const cellAt = (value) => scaled(mostOfAll ? value / mostOfAll : 0, state);
    return { state, matrix, token, values, most, mostOfAll, at, cellAt, dark: isDark(this.root) };
  }

  #base({ base }, matrix) {
    const { shape, poolings } = this.explanation;
    if (base === "average" || !poolings) return received(matrix, shape);
    return poolings.subarray(Number(base) * shape[1], (Number(base) + 1) * shape[1]);
  }

  #note() {
    const sentences = this.explanation.queries ? [ALIGNED, ...SENTENCES] : SENTENCES;
    const found = element("p", { class: "note attention-note", text: `${sentences.join(" ")} ` });
    if (this.tabs.includes("words")) {
      const onclick = () => {
        this.kept.asksWords = true;
        this.state.set({ tab: "words" });
      };
      const text = `See what each ${this.explanation.unit ?? "word"} counts for`;
      found.append(element("button", { type: "button", text, onclick }));
    }
    if (this.explanation.layersLeftOut) {
      found.append(` ${this.explanation.layersLeftOut} layers of other sizes are not shown.`);
    }
    return found;
  }

  #saving() {
    const save = (text, saved) =>
      element("button", { type: "button", text, onclick: () => saved(this.#picture()) });
    const buttons = [save("PNG", savePng), save("SVG", saveSvg), save("Web page", saveHtml)];
    const group = { class: "attention-saving", role: "group", "aria-label": "Save what is seen" };
    return element("div", group, [element("span", { text: "Save as" }), ...buttons]);
  }

  /** Return what is in sight, with a title. */
  #picture() {
    const { dark } = this.seen;
    const fill = ink(weightScale(dark), 0);
    const { explanation, seen } = this;
    const about = titleOf(seen, explanation);
    const weights = { title: about, sentences: SENTENCES, rows: topRows(seen, explanation) };
    const told = this.view.told?.() ?? weights;
    const title = [explanation.title, told.title].filter(Boolean).join(". ");
    const { width, height, shapes } = this.view.scene();
    const heading = { kind: "text", x: 4, y: 20, text: title, fill, size: 14 };
    const background = dark ? "#14161b" : "#ffffff";
    const scene = { width, height, background, shapes: [heading, ...shapes], title };
    return { ...told, scene };
  }
}

function tabsOf({ kind, leaveOneOut, queries }) {
  if (queries) return ["lines", "matrix", "heads"];
  const first = ["series", "image", "sound"].includes(kind) ? kind : "text";
  return [first, "lines", "matrix", "heads", ...(leaveOneOut ? ["words"] : [])];
}

/** @returns {import("./store.js").State} */
function firstState({ heads, layers, queries }, tab) {
  const ofMany = queries ? "all" : "layer"; // a head or layer alone may align nothing
  const source = heads > 1 ? ofMany : "head";
  const places = { layer: Math.max(0, layers - 1), head: 0, token: null, hover: null, column: 0 };
  return { source, ...places, direction: "from", base: "average", scale: "plain", tab };
}
