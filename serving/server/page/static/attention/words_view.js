/** What words count for: the answer without each of them, and the n-grams of the wide path. */

import { changeScale, colour } from "./colours.js";
import { choice } from "./controls.js";
import { element, styled } from "../dom.js";
import { largest, top } from "./matrices.js";
import { TokenText } from "./token_text.js";
import { visible } from "./token_lines.js";

/** Bars shown: the largest changes. */
const BARS = 20;

/** @implements {import("./view.js").View} */
export class WordsView {
  /** @param {import("./view.js").Stage} stage */
  constructor(stage) {
    this.stage = stage;
    this.stop = new AbortController();
    this.label = 0;
    this.seen = null;
    this.status = element("p", { role: "status" });
    const onclick = () => this.#ask();
    this.button = element("button", { type: "button", text: "Leave out each word", onclick });
    this.top = element("div", { class: "attention-tools" }, [this.button]);
    this.place = element("div");
    this.ngrams = element("div");
    this.panel = element("div", { class: "attention-words" }, [this.top, this.status, this.place, this.ngrams]);
    stage.panel.append(this.panel);
    if (stage.kept.words) this.#found();
  }

  show(seen) {
    this.seen = seen;
    this.#paint();
  }

  destroy() {
    this.stop.abort();
    this.text?.destroy();
    this.panel.remove();
  }

  scene() {
    if (!this.text) return { width: 420, height: 60, shapes: [] };
    const { shapes, width, bottom } = this.text.shapes(34);
    return { width: Math.max(width, 420), height: bottom + 8, shapes };
  }

  /** Title, sentences and rows of a saved page. */
  told() {
    const title = "Words left out";
    if (!this.stage.kept.words) return { title, sentences: ["No word has been left out."], rows: [] };
    const label = this.stage.kept.words.labels[this.label];
    const sentences = [`Change of the score of “${label}” when a word is left out.`];
    return { title, sentences, rows: this.#bars().map(({ name, value }) => [name, signed(value)]) };
  }

  async #ask() {
    this.button.disabled = true;
    const { explanation, kept } = this.stage;
    const progress = (done, all) => (this.status.textContent = `${done} of ${all} words left out`);
    try {
      kept.words = await explanation.leaveOneOut(this.stop.signal, progress);
      kept.ngrams = explanation.contributions ? await explanation.contributions(this.stop.signal) : null;
      this.#found();
    } catch (error) {
      if (!this.stop.signal.aborted) this.status.textContent = `No answer: ${error.message}`;
    }
    this.button.disabled = false;
  }

  #found() {
    const { words, labels, whole } = this.stage.kept.words;
    this.label = whole.indexOf(Math.max(...whole));
    const options = labels.map((label, place) => [String(place), label]);
    const change = (value) => {
      this.label = Number(value);
      this.#paint();
    };
    const { label } = choice("Score of", options, String(this.label), change);
    this.top.replaceChildren(this.button, label);
    this.text?.destroy();
    this.place.replaceChildren();
    this.text = new TokenText(this.place, words, {
      label: "Words. Arrow keys choose one.",
      now: () => this.token ?? null,
      hover: (token) => this.#chosen(token, true),
      choose: (token) => this.#chosen(token, false),
      describe: (token) => `${visible(words[token])}: ${signed(this.#changes()[token])} without it`,
    });
    this.list = element("ol", { class: "attention-bars" });
    this.place.append(this.list);
    this.#paint();
  }

  #chosen(token, isPassing) {
    this.token = token;
    const { words } = this.stage.kept.words;
    if (token !== null && !isPassing) {
      this.stage.say(`${visible(words[token])}: ${signed(this.#changes()[token])} without it`, true);
    }
    this.#paint();
  }

  /** Return the change of the chosen label's score without each word. */
  #changes() {
    const { words, labels, whole, without } = this.stage.kept.words;
    return words.map((_, place) => without[place * labels.length + this.label] - whole[this.label]);
  }

  #bars() {
    const changes = this.#changes();
    const { words } = this.stage.kept.words;
    const places = top(changes.map(Math.abs), BARS);
    return places.map((place) => ({ name: visible(words[place]), value: changes[place] }));
  }

  #paint() {
    if (!this.text || !this.seen) return;
    const { labels, whole } = this.stage.kept.words;
    const changes = this.#changes();
    const most = largest(changes.map(Math.abs)) || 1;
    const scale = changeScale(this.seen.dark);
    const at = (value) => 0.5 - value / most / 2; // a word counts for a label whose score falls without it
    this.text.paint({ values: changes, at, scale, token: this.token ?? null });
    const bars = this.#bars().map(({ name, value }) => barOf(name, signed(value), at(value), scale));
    this.list.replaceChildren(...bars);
    this.status.textContent =
      `Score of “${labels[this.label]}”: ${number(whole[this.label])}. ` +
      "Below, its change without each word: blue where it falls, orange where it rises.";
    this.#paintNgrams(scale);
  }

  #paintNgrams(scale) {
    const { ngrams } = this.stage.kept;
    if (!ngrams) return;
    const { labels, logits, kinds } = ngrams;
    const parts = ngrams.ngrams.map((_, place) => logits[place * labels.length + this.label]);
    const most = largest(parts.map(Math.abs)) || 1;
    const bars = top(parts.map(Math.abs), BARS).map((place) => {
      const name = `${ngrams.ngrams[place].replaceAll(" ", "␣")} (${kinds[place]})`;
      return barOf(name, signed(parts[place]), 0.5 + parts[place] / most / 2, scale);
    });
    const title = `The wide path, exactly: what n-grams add to the logit of “${labels[this.label]}”`;
    this.ngrams.replaceChildren(
      element("h3", { text: title }),
      element("ol", { class: "attention-bars" }, bars),
    );
  }
}

function barOf(name, value, at, scale) {
  const bar = element("span", { class: "attention-bar", "aria-hidden": "true" });
  styled(bar, { width: `${100 * Math.abs(2 * at - 1)}%`, "background-color": colour(scale, at) });
  const room = element("span", { class: "attention-bar-room" }, [bar]);
  return element("li", {}, [element("bdi", { text: name }), room, element("span", { text: value })]);
}

/** @param {number} value */
export function number(value) {
  return value.toFixed(Math.abs(value) < 0.001 && value ? 5 : 3);
}

function signed(value) {
  return `${value < 0 ? "−" : "+"}${number(Math.abs(value))}`;
}
