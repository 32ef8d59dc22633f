/** What words count for: the answer without each of them, and the n-grams of the wide path. */

import { changeScale, colour } from "./colours.js";
import { choice } from "./controls.js";
import { element, styled } from "../dom.js";
import { languageNames } from "../languages.js";
import { largest, top } from "./matrices.js";
import { TokenText } from "./token_text.js";
import { visible } from "./token_lines.js";

/** Bars shown: the largest changes. */
const BARS = 20;
/** The change of a score whose colour is full, if none is larger. */
const LEAST_CHANGE = 0.01;
/** Changes below are written as 0. */
const LEAST_SHOWN = 0.000005;
const ABOUT_NGRAMS =
  "N-grams are words, pairs and pieces of words. A logit is a score before all scores are made to add up to 1: " +
  "what adds to it raises the label's score. Attention adds a part of its own, which is not listed.";

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
    this.unit = stage.explanation.unit ?? "word";
    this.button = element("button", { type: "button", text: `Leave out each ${this.unit}`, onclick });
    this.top = element("div", { class: "attention-tools" }, [this.button]);
    this.place = element("div");
    this.ngrams = element("div");
    const note = element("p", { class: "note attention-note", text: aboutLeavingOut(this.unit) });
    const parts = [note, this.top, this.status, this.place, this.ngrams];
    this.panel = element("div", { class: "attention-words" }, parts);
    stage.panel.append(this.panel);
    if (stage.kept.words) this.#found();
    else if (stage.kept.asksWords) this.#ask();
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
    const title = leftOutTitle(this.stage.explanation);
    if (!this.stage.kept.words) return { title, sentences: [`No ${this.unit} has been left out.`], rows: [] };
    const label = this.stage.kept.words.labels[this.label];
    const change = `Change of the score of “${label}” when a ${this.unit} is left out.`;
    const sentences = [change, aboutLeavingOut(this.unit)];
    return { title, sentences, rows: this.#bars().map(({ name, value }) => [name, signed(value)]) };
  }

  async #ask() {
    this.button.disabled = true;
    const { explanation, kept } = this.stage;
    const progress = (done, all) => (this.status.textContent = `${done} of ${all} ${this.unit}s left out`);
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
    const nameOf = languageNames(labels);
    const options = labels.map((label, place) => [String(place), `${label} ${nameOf(label)}`.trim()]);
    const change = (value) => {
      this.label = Number(value);
      this.#paint();
    };
    const { label } = choice("Score of", options, String(this.label), change);
    this.top.replaceChildren(label);
    this.text?.destroy();
    this.place.replaceChildren();
    this.text = new TokenText(this.place, words, {
      label: `${this.unit === "letter" ? "Letters" : "Words"}. Arrow keys choose one.`,
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
    const count = (word) => words.filter((other) => other === word).length;
    const nameAt = (place) =>
      count(words[place]) > 1 ? `${visible(words[place])} (${place + 1})` : visible(words[place]);
    const seen = places.filter((place) => Math.abs(changes[place]) >= LEAST_SHOWN);
    return seen.map((place) => ({ name: nameAt(place), value: changes[place] }));
  }

  #paint() {
    if (!this.text || !this.seen) return;
    const { labels, whole } = this.stage.kept.words;
    const changes = this.#changes();
    const change = largest(changes.map(Math.abs));
    const most = Math.max(change, LEAST_CHANGE); // colours of less would make much of nothing
    const scale = changeScale(this.seen.dark);
    const at = (value) => 0.5 - value / most / 2; // a word counts for a label whose score falls without it
    this.text.paint({ values: changes, at, scale, token: this.token ?? null });
    const bars = this.#bars().map(({ name, value }) => barOf(name, signed(value), at(value), scale));
    this.list.replaceChildren(...bars);
    const name = labels[this.label];
    this.status.textContent =
      `The score of “${name}” is ${number(whole[this.label])}. ` +
      (change < LEAST_CHANGE
        ? `No single ${this.unit} decides it: without any one of them it changes by less than ${LEAST_CHANGE}.`
        : `Without a blue ${this.unit} it falls: that ${this.unit} speaks for “${name}”. ` +
          "Without an orange one it rises.");
    this.#paintNgrams(scale);
  }

  #paintNgrams(scale) {
    const { ngrams } = this.stage.kept;
    if (!ngrams) return;
    const { labels, logits, kinds } = ngrams;
    const parts = ngrams.ngrams.map((_, place) => logits[place * labels.length + this.label]);
    const most = largest(parts.map(Math.abs)) || 1;
    const bars = top(parts.map(Math.abs), BARS).map((place) => {
      const name = `${visible(ngrams.ngrams[place]).replaceAll(" ", "␣")} (${kinds[place]})`;
      return barOf(name, signed(parts[place]), 0.5 + parts[place] / most / 2, scale);
    });
    const title = `The wide path, exactly: what n-grams add to the logit of “${labels[this.label]}”`;
    this.ngrams.replaceChildren(
      element("h3", { text: title }),
      element("p", { class: "note attention-note", text: ABOUT_NGRAMS }),
      element("ol", { class: "attention-bars" }, bars),
    );
  }
}

/** Return the title of this view. @param {import("./matrices.js").Explanation} explanation */
export function leftOutTitle({ unit }) {
  return unit === "letter" ? "Letters left out" : "Words left out";
}

function aboutLeavingOut(unit) {
  return (
    `Each ${unit} is left out in turn, and the model is asked again: this is what the answer hangs on. ` +
    `Where two ${unit}s say the same, each alone can seem to count for nothing.`
  );
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
