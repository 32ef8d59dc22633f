// JSON with integers of any size: those that a number of JavaScript cannot hold are BigInts.

/** Strings, which match first and as a whole, and numbers. */
export const STRING_OR_NUMBER = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;
const LONG_INTEGER = /(?<![\d.])\d{16,}(?![\d.eE])/;
// A character of private use: no text that people write holds it.
const MARK = "\ue000integer ";
const MARKED = new RegExp(`^${MARK}-?\\d+$`);
const WRITTEN = new RegExp(`"${MARK}(-?\\d+)"`, "g");

/** Return true if a part of a JSON text is an integer that would become another one as a number. */
export function isLargeInteger(text) {
  return /^-?\d+$/.test(text) && !Number.isSafeInteger(Number(text));
}

/** Parse JSON; integers beyond 2^53 become BigInts. */
export function parseExact(text) {
  if (!LONG_INTEGER.test(text)) return JSON.parse(text); // nearly always
  const marked = text.replace(STRING_OR_NUMBER, (found) =>
    isLargeInteger(found) ? `"${MARK}${found}"` : found,
  );
  return JSON.parse(marked, (_key, value) =>
    typeof value === "string" && MARKED.test(value) ? BigInt(value.slice(MARK.length)) : value,
  );
}

/** Write JSON; BigInts are integers in it. `space` is that of JSON.stringify. */
export function writeExact(value, space = 0) {
  const replacer = (_key, each) => (typeof each === "bigint" ? `${MARK}${each}` : each);
  return (JSON.stringify(value, replacer, space) ?? "").replace(WRITTEN, "$1");
}
