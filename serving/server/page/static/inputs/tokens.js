// An input of rows of tokens: a row a line, tokens between blanks or as a JSON list.

import { element, field } from "../dom.js";

const PADDING = ""; // rows of one call have one length
// Other blanks, such as U+00A0 in "10 000", are part of a token.
const BETWEEN = /[ \t\r]+/;
const AROUND = /^[ \t\r]+|[ \t\r]+$/g;

/**
 * @param {{input: string}} way
 * @param {() => void} onChange
 */
export function tokensInput(way, onChange) {
  const area = element("textarea", { rows: 5, dir: "auto", spellcheck: "false", oninput: onChange });
  const hint = 'A row a line. Tokens stand between blanks, or in a JSON list: ["New York", "is", "far"].';

  return {
    element: element("div", { class: "input" }, field("Tokens", area, hint)),
    size: () => area.value.length,
    read() {
      const rows = area.value
        .split("\n")
        .map((line) => line.replace(AROUND, ""))
        .filter(Boolean)
        .map(tokensOf);
      const longest = Math.max(0, ...rows.map((row) => row.length));
      const padded = rows.map((row) => [...row, ...Array(longest - row.length).fill(PADDING)]);
      const titles = rows.map((row) => row.join(" "));
      return {
        inputs: { [way.input]: padded },
        titles,
        words: rows.map((row) => JSON.stringify(row)),
        tokens: rows,
      };
    },
    set(values) {
      const isPlain = (row) => row.every((token) => /^\S+$/.test(token)) && !row[0]?.startsWith("[");
      area.value = values[way.input]
        .map((row) => (isPlain(row) ? row.join(" ") : JSON.stringify(row)))
        .join("\n");
      onChange();
    },
  };
}

function tokensOf(line, index) {
  if (!line.startsWith("[")) return line.split(BETWEEN);
  let row;
  try {
    row = JSON.parse(line);
  } catch {
    return line.split(BETWEEN);
  }
  if (!row.every((token) => typeof token === "string" && token !== "")) {
    throw new Error(`Line ${index + 1} must be a list of strings that are not empty.`);
  }
  return row;
}
