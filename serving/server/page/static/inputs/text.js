// An input of texts: one, or one a line.

import { checkbox, element, field } from "../dom.js";

/**
 * @param {{input: string}} way
 * @param {() => void} onChange
 */
export function textInput(way, onChange) {
  let byLine = false;
  const area = element("textarea", { rows: 6, dir: "auto", spellcheck: "false", oninput: onChange });
  area.placeholder = "Write or paste a text";
  const lines = checkbox("Each line is a text of its own", false, (checked) => {
    byLine = checked;
    onChange();
  });

  function texts() {
    if (!byLine) return area.value === "" ? [] : [area.value];
    return area.value
      .split("\n")
      .map((line) => line.replace(/\r$/, ""))
      .filter((line) => line.trim() !== "");
  }

  return {
    element: element("div", { class: "input" }, field("Text", area), lines),
    size: () => area.value.length,
    read() {
      const found = texts();
      return { inputs: { [way.input]: found }, titles: found, words: found };
    },
    set(values) {
      area.value = values[way.input].join("\n");
      onChange();
    },
  };
}
