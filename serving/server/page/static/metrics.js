// The server's Prometheus metrics: parsed, and what happened between two looks at them.

const PREFIX = ":tensorflow:serving:";
const SAMPLE = /^([^\s{]+)(?:\{(.*)\})? (\S+)$/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

/**
 * Parse metrics in Prometheus' text format.
 * @param {string} text
 * @returns {Map<string, {labels: Object<string, string>, value: number}[]>} by name without TensorFlow Serving's prefix
 */
export function parseMetrics(text) {
  const found = new Map();
  for (const line of text.split("\n")) {
    const parts = line.startsWith("#") ? null : SAMPLE.exec(line);
    if (!parts) continue;
    const name = parts[1].replace(PREFIX, "");
    if (!found.has(name)) found.set(name, []);
    found
      .get(name)
      .push({ labels: labelsOf(parts[2] ?? ""), value: Number(parts[3].replace("+Inf", "Infinity")) });
  }
  return found;
}

function labelsOf(text) {
  const unescaped = (value) =>
    value.replace(/\\(.)/g, (_, character) => (character === "n" ? "\n" : character));
  return Object.fromEntries([...text.matchAll(LABEL)].map(([, name, value]) => [name, unescaped(value)]));
}

/** Return the sum of a metric's samples that have these labels. */
export function total(metrics, name, wanted = {}) {
  return samples(metrics, name, wanted).reduce((sum, { value }) => sum + value, 0);
}

/** Return the values of a label of a metric. */
export function valuesOf(metrics, name, label) {
  return [...new Set((metrics.get(name) ?? []).map(({ labels }) => labels[label] ?? ""))];
}

function samples(metrics, name, wanted) {
  const pairs = Object.entries(wanted);
  return (metrics.get(name) ?? []).filter(({ labels }) =>
    pairs.every(([key, value]) => labels[key] === value),
  );
}

/** Return a histogram's counts up to each bound, `[bound, count]`, the bounds ascending. */
export function histogram(metrics, name, wanted = {}) {
  const sums = new Map();
  for (const { labels, value } of samples(metrics, `${name}_bucket`, wanted)) {
    const bound = labels.le === "+Inf" ? Infinity : Number(labels.le);
    sums.set(bound, (sums.get(bound) ?? 0) + value);
  }
  return [...sums].sort(([a], [b]) => a - b);
}

/** Return what a histogram gained since an earlier look. */
export function gained(now, before) {
  const known = new Map(before);
  return now.map(([bound, count]) => [bound, count - (known.get(bound) ?? 0)]);
}

/** Return the value below which a share of a histogram lies, interpolated in its bucket; NaN if it is empty. */
export function quantile(counts, share) {
  const all = counts.at(-1)?.[1] ?? 0;
  if (!all) return NaN;
  const wanted = share * all;
  let [low, below] = [0, 0];
  for (const [bound, count] of counts) {
    if (count >= wanted) {
      if (bound === Infinity) return low;
      return low + ((wanted - below) / (count - below || 1)) * (bound - low);
    }
    [low, below] = [bound, count];
  }
  return low;
}
