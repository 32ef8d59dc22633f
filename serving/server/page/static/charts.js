// Small line charts in SVG, which a screen reader gets as one sentence.

import { number, svgElement } from "./dom.js";

const WIDTH = 600;
const HEIGHT = 160;
const MARGIN = 8;
const MOST_POINTS = 600; // more than there are pixels

/**
 * Return a chart of lines over a common axis.
 * @param {(number|null)[][]} lines null is a gap
 * @param {string} title what it shows
 * @param {{start?: number, zero?: boolean}[]} [places] of each line: where it begins; whether 0 is on the axis
 */
export function lineChart(lines, title, places = []) {
  const values = lines.flat().filter(Number.isFinite);
  const low = Math.min(...(places[0]?.zero ? [0] : []), ...edges(values));
  const high = Math.max(...edges(values));
  const length = Math.max(2, ...lines.map((line, index) => line.length + (places[index]?.start ?? 0)));
  const drawn = svgElement("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "chart", role: "img" });
  drawn.setAttribute("aria-label", `${title}: from ${number(low)} to ${number(high)}`);
  drawn.setAttribute("preserveAspectRatio", "none");
  lines.forEach((line, index) => {
    const d = path(line, places[index]?.start ?? 0, length, low, high);
    drawn.append(
      svgElement("path", { d, class: `line line-${index % 6}`, "vector-effect": "non-scaling-stroke" }),
    );
  });
  return drawn;
}

function edges(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return values.length ? [low, high] : [0, 1];
}

function path(line, start, length, low, high) {
  const step = Math.max(1, Math.floor(line.length / MOST_POINTS));
  let isDown = false;
  let written = "";
  for (let index = 0; index < line.length; index += step) {
    if (!Number.isFinite(line[index])) {
      isDown = false;
      continue;
    }
    const x = MARGIN + ((start + index) / (length - 1)) * (WIDTH - 2 * MARGIN);
    const y = HEIGHT - MARGIN - ((line[index] - low) / (high - low || 1)) * (HEIGHT - 2 * MARGIN);
    written += `${isDown ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}${isDown ? "" : "h0"}`; // or a lone point is not seen
    isDown = true;
  }
  return written;
}
