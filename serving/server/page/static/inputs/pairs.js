// An input of two texts that are one row: a premise and a hypothesis, a question and an answer.

import { element, field } from "../dom.js";

/** The inputs of a model of pairs, with the words above their fields. */
export const NAMES = { text: "First text", text_pair: "Second text" };

/**
 * @param {{input: string}} _way
 * @param {() => void} onChange
 */
export function pairsInput(_way, onChange) {
  const areas = Object.keys(NAMES).map((name) => {
    const area = element("textarea", { rows: 4, dir: "auto", spellcheck: "false", oninput: onChange });
    area.placeholder = "Write or paste a text";
    return [name, area];
  });

  return {
    element: element("div", { class: "input" }, ...areas.map(([name, area]) => field(NAMES[name], area))),
    size: () => areas.reduce((sum, [, area]) => sum + area.value.length, 0),
    read() {
      const texts = areas.map(([, area]) => area.value);
      // Until both are there, there is nothing to ask.
      const rows = texts.every((text) => text !== "") ? [texts] : [];
      const inputs = Object.fromEntries(areas.map(([name], place) => [name, rows.map((row) => row[place])]));
      return { inputs, titles: rows.map((row) => row.join(" / ")), words: rows.flat(), isPairs: true };
    },
    set(values) {
      for (const [name, area] of areas) area.value = values[name][0];
      onChange();
    },
  };
}
