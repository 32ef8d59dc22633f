// Names of language codes, for labels that are such codes: "sq" says little to most people.

const CODE = /^[a-z]{2}$/;
/** Of fewer labels, such as "no" and "ja", nobody can tell. */
const LEAST = 3;

/**
 * Return a function that gives the English name of a label; "" unless all labels are codes of languages.
 * @param {string[]} labels
 * @returns {(label: string) => string}
 */
export function languageNames(labels) {
  const none = () => "";
  if (labels.length < LEAST || !labels.every((label) => CODE.test(label))) return none;
  const names = new Intl.DisplayNames(["en"], { type: "language", fallback: "none" });
  const found = new Map(labels.map((label) => [label, names.of(label) ?? ""]));
  return [...found.values()].every(Boolean) ? (label) => found.get(label) ?? "" : none;
}
