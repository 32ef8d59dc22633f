/** Lines of tokens as wide as the page, measured before they are drawn: only those in sight become elements. */

const PADDING = 4;
/** The first letter of a text: in the group if its script runs from right to left. */
const LETTER = /([\p{Script=Arabic}\p{Script=Hebrew}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}])|\p{L}/u;

/**
 * Measure the widths of tokens, one a step.
 * @param {string} font in CSS.
 * @param {number} least the smallest width of a token, in pixels.
 */
export function* measured(tokens, font, least) {
  const context = document.createElement("canvas").getContext("2d");
  context.font = font;
  const known = new Map();
  const found = [];
  for (const token of tokens) {
    if (!known.has(token)) known.set(token, Math.ceil(context.measureText(token).width));
    found.push(Math.max(least, known.get(token) ?? 0) + 2 * PADDING);
    yield;
  }
  return found;
}

/**
 * Break tokens into lines.
 * @param {number} room of a line, in pixels.
 * @returns {[number, number][]} first token of each line, and the one after its last.
 */
export function broken(widths, room, gap) {
  const found = [];
  let [first, used] = [0, 0];
  widths.forEach((width, place) => {
    const wanted = Math.min(width, room) + (place > first ? gap : 0);
    if (place > first && used + wanted > room) {
      found.push([first, place]);
      [first, used] = [place, Math.min(width, room)];
    } else used += wanted;
  });
  if (widths.length) found.push([first, widths.length]);
  return found;
}

/** Return the direction of a text: that of its first letter. */
export function directionOf(tokens) {
  for (const token of tokens) {
    const found = LETTER.exec(token);
    if (found) return found[1] ? "rtl" : "ltr";
  }
  return "ltr";
}

/** Joiners, marks of direction, variants and blanks of other widths: alone they cannot be seen. */
const UNSEEN = /^(?! +$)[\p{Cc}\p{Cf}\p{Z}\u{FE00}-\u{FE0F}]+$/u;

/** Return a token as it is shown: blanks would be invisible. */
export function visible(token) {
  const lines = token.replace(/\n/g, "⏎").replace(/\t/g, "⇥");
  if (UNSEEN.test(lines)) return [...lines].map(codeOf).join(" ");
  return lines.replace(/^ +$/, (blanks) => "␣".repeat(blanks.length)) || "∅";
}

function codeOf(character) {
  return `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
}
