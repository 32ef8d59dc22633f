// An input of one series: numbers in a text, from a file, or a curve that is drawn.

import { lineChart } from "../charts.js";
import { element, field, fill } from "../dom.js";

const DRAWN = { width: 600, height: 160 };
const MOST_FRAMES = 100_000;

/**
 * @param {{input: string, features: number}} way
 * @param {() => void} onChange
 */
export function seriesInput(way, onChange) {
  const one = way.features === 1;
  const area = element("textarea", { rows: 5, spellcheck: "false", dir: "ltr", oninput: changed });
  const hint = one
    ? "Numbers between blanks, commas or lines. A gap is written as nan."
    : `A step a line, with ${way.features} numbers between blanks or commas. A gap is written as nan.`;
  const file = element("input", {
    type: "file",
    accept: ".csv,.tsv,.txt,.json,text/*",
    onchange: () => open(file.files[0]),
  });
  const chart = element("div", { class: "drawn" });
  const drawing = one ? drawingOf(area, changed) : null;
  const trouble = element("p", { class: "trouble", role: "alert" });

  function frames() {
    const found = framesOf(area.value, way.features);
    if (found.length > MOST_FRAMES)
      throw new Error(`A series can have ${MOST_FRAMES} steps here; it has ${found.length}.`);
    return found;
  }

  function changed() {
    try {
      const found = frames();
      const columns = Array.from({ length: way.features }, (_, column) =>
        found.map((frame) => frame[column]),
      );
      fill(chart, found.length > 1 && lineChart(columns, `Series of ${found.length} steps`));
      drawing?.element.classList.toggle("empty", found.length < 2);
    } catch {
      // Whoever asks says what is wrong.
    }
    onChange();
  }

  async function open(chosen) {
    if (!chosen) return;
    trouble.textContent = "";
    try {
      area.value = cells(await chosen.text());
      changed();
    } catch (error) {
      trouble.textContent = `${chosen.name} cannot be read: ${error.message}`;
    }
    file.value = ""; // so that the same file can be opened again
  }

  const board = element("div", { class: "board" }, chart, drawing?.element);
  return {
    element: element(
      "div",
      { class: "input" },
      field("Numbers", area, hint),
      one &&
        element("p", { class: "note" }, "Or draw a curve with the mouse or a finger, from left to right:"),
      board,
      drawing?.controls,
      field("Or open a file", file, "CSV, text or JSON; a first line of names is left out."),
      trouble,
    ),
    size: () => area.value.length,
    read() {
      const found = frames();
      if (!found.length) return { inputs: { [way.input]: [] }, titles: [], words: [] };
      const word = JSON.stringify(one ? found.map((frame) => frame[0]) : found);
      return { inputs: { [way.input]: [found] }, titles: [`series of ${found.length} steps`], words: [word] };
    },
    set(values) {
      area.value = values[way.input][0].map((frame) => frame.map(plain).join(" ")).join(one ? " " : "\n");
      changed();
    },
  };
}

function plain(value) {
  return value === null ? "nan" : String(value).replace(/^NaN$/i, "nan");
}

/** Return the frames in a text: lists of `features` numbers, NaN for a gap. */
export function framesOf(text, features) {
  const lines = text
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean);
  const rows = lines.map((line) =>
    line
      .split(/[\s,;]+/)
      .filter(Boolean)
      .map(numberOf),
  );
  if (features === 1) return rows.flat().map((value) => [value]);
  rows.forEach((row, index) => {
    if (row.length !== features) {
      throw new Error(`Line ${index + 1} must have ${features} numbers. It has ${row.length}.`);
    }
  });
  return rows;
}

function numberOf(word) {
  if (/^(nan|null|na|\?)$/i.test(word)) return NaN;
  const found = Number(word);
  if (!Number.isFinite(found)) throw new Error(`“${word.slice(0, 40)}” is not a number.`);
  return found;
}

/** Return the numbers of a file as the text area takes them: JSON lists as lines, without a line of names. */
function cells(content) {
  const text = content.replace(/^\ufeff/, "").trim();
  if (text.startsWith("[")) {
    const found = JSON.parse(text);
    return found.map((frame) => [frame].flat(Infinity).map(plain).join(" ")).join("\n");
  }
  const lines = text.split(/\r?\n/);
  const isNames =
    lines.length > 1 &&
    lines[0].split(/[\s,;]+/).some((cell) => cell && Number.isNaN(Number(cell)) && !/^nan$/i.test(cell));
  return (isNames ? lines.slice(1) : lines).join("\n");
}

/** A place to draw a curve on; what is drawn becomes numbers in the text area. */
function drawingOf(area, onDrawn) {
  const canvas = element("canvas", { ...DRAWN, "aria-hidden": "true" });
  const setting = (value, step) => element("input", { type: "number", value, step });
  const [count, low, high] = [setting(100, 1), setting(-1, "any"), setting(1, "any")];
  const context = canvas.getContext("2d");
  let points = [];

  function at(event) {
    const box = canvas.getBoundingClientRect();
    const clip = (share) => Math.max(0, Math.min(1, share));
    return [clip((event.clientX - box.left) / box.width), 1 - clip((event.clientY - box.top) / box.height)];
  }

  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    context.clearRect(0, 0, DRAWN.width, DRAWN.height);
    context.strokeStyle = getComputedStyle(canvas).color;
    context.lineWidth = 2;
    points = [at(event)];
  });
  canvas.addEventListener("pointermove", (event) => {
    const next = at(event);
    if (!points.length || next[0] <= points.at(-1)[0]) return;
    context.beginPath();
    context.moveTo(points.at(-1)[0] * DRAWN.width, (1 - points.at(-1)[1]) * DRAWN.height);
    context.lineTo(next[0] * DRAWN.width, (1 - next[1]) * DRAWN.height);
    context.stroke();
    points.push(next);
  });
  canvas.addEventListener("pointerup", () => {
    const steps = Math.max(2, Math.min(MOST_FRAMES, Math.round(Number(count.value)) || 2));
    const [bottom, top] = [Number(low.value), Number(high.value)];
    context.clearRect(0, 0, DRAWN.width, DRAWN.height);
    if (points.length > 1) {
      const values = sampled(points, steps).map((share) => bottom + share * (top - bottom));
      area.value = values.map((value) => Number(value.toFixed(4))).join(" ");
      onDrawn();
    }
    points = [];
  });
  const controls = element(
    "div",
    { class: "inline" },
    field("Steps", count),
    field("Lowest", low),
    field("Highest", high),
  );
  return { element: canvas, controls };
}

/** Return the heights of a polyline at evenly spaced places of its whole width. */
function sampled(points, steps) {
  const [first, last] = [points[0][0], points.at(-1)[0]];
  let place = 0;
  return Array.from({ length: steps }, (_, step) => {
    const x = first + (step / (steps - 1)) * (last - first);
    while (place < points.length - 2 && points[place + 1][0] < x) place += 1;
    const [[x0, y0], [x1, y1]] = [points[place], points[place + 1]];
    return y0 + (y1 - y0) * Math.min(1, (x - x0) / (x1 - x0 || 1));
  });
}
