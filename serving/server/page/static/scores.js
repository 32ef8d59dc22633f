// Bars of the scores of all classes: the ten highest first, all of them on request, searched by name.

import { checkbox, element, fill, foreign, percent } from "./dom.js";
import { languageNames } from "./languages.js";

const FIRST = 10;
const MOST_SHOWN = 300; // elements; of more classes one searches

/**
 * Return bars of scores.
 * @param {string[]} names
 * @param {number[]} scores in [0, 1]
 * @param {string[]} [chosen] of several labels, those that are answered
 */
export function scoreBars(names, scores, chosen) {
  const order = scores.map((_, index) => index).sort((a, b) => (scores[b] || 0) - (scores[a] || 0));
  const list = element("ol", { class: "bars" });
  const note = element("p", { class: "note", role: "status" });
  const nameOf = languageNames(names);
  let wanted = "";
  let all = false;

  function show() {
    const asked = wanted.toLocaleLowerCase();
    const found = order.filter((index) =>
      `${names[index]} ${nameOf(names[index])}`.toLocaleLowerCase().includes(asked),
    );
    const shown = found.slice(0, all || wanted ? MOST_SHOWN : FIRST);
    fill(
      list,
      shown.map((index) => {
        const name = [names[index], nameOf(names[index])];
        return bar(name, scores[index], order.indexOf(index) + 1, chosen);
      }),
    );
    const of = wanted ? `of the ${found.length} whose name has “${wanted}”` : `of ${names.length}`;
    note.textContent = shown.length < found.length || wanted ? `${shown.length} ${of}` : "";
  }

  const box = element("div", { class: "scores" }, list, note);
  if (names.length > FIRST) box.prepend(tools());
  show();
  return box;

  function tools() {
    const search = element("input", {
      type: "search",
      "aria-label": `Search ${names.length} labels`,
      placeholder: `Search ${names.length} labels`,
      autocomplete: "off",
      oninput: () => {
        wanted = search.value.trim();
        show();
      },
    });
    const every = checkbox(`All ${names.length}`, false, (checked) => {
      all = checked;
      list.classList.toggle("scrolls", checked);
      list.tabIndex = checked ? 0 : -1;
      show();
    });
    return element("div", { class: "tools" }, search, every);
  }
}

function bar([name, meaning], score, rank, chosen) {
  const isChosen = chosen ? chosen.includes(name) : rank === 1;
  const share = element("span", { class: "share" });
  share.style.inlineSize = `${Math.max(0, Math.min(1, score || 0)) * 100}%`;
  return element(
    "li",
    { value: rank, class: isChosen ? "chosen" : "" },
    element(
      "span",
      { class: "name" },
      foreign(name),
      meaning && element("span", { class: "meaning" }, ` ${meaning}`),
      isChosen && element("span", { class: "mark" }, " ✓"),
    ),
    element("span", { class: "track", "aria-hidden": "true" }, share),
    element("span", { class: "figure" }, percent(score)),
  );
}
