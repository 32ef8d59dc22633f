// The picture of a sound: its waveform, and under it its mel spectrogram, over one axis of seconds.

import { ink, isDark, pixels, weightScale } from "../attention/colours.js";
import { drawOn } from "../attention/scene.js";
import { inSlices } from "../attention/slices.js";
import { onFrames } from "../attention/virtual.js";
import { element, number } from "../dom.js";
import { BANDS, spectrogram } from "./spectrogram.js";

const MOST_SECONDS = 20;
const [LEFT, RIGHT] = [52, 8]; // beside the pictures, for names of frequencies
const [WAVE, SPECTRUM, AXIS] = [90, 110, 22];
const GAP = 6;
const SHOWN = 80; // decibels below the loudest

/**
 * Draw a sound, again whenever its room changes.
 * @param {string} name of the sound
 * @param {import("./wav.js").Sound} sound
 * @returns {{element: HTMLElement, note: string, destroy: () => void}} the picture, and what it leaves out
 */
export function soundPicture(name, { samples, rate }) {
  const sound = { samples: samples.subarray(0, MOST_SECONDS * rate), rate };
  const canvas = element("canvas", { role: "img", "aria-label": `Waveform and spectrogram of ${name}` });
  const box = element("div", { class: "sound-picture" }, canvas);
  const stop = new AbortController();
  let spectrum = null;
  const draw = () => {
    const width = box.clientWidth;
    const stroke = getComputedStyle(canvas).color;
    if (width) drawOn(canvas, sceneOf(sound, spectrum, width, stroke, isDark(box)));
  };
  const frames = onFrames(box, draw);
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  scheme.addEventListener("change", draw);
  inSlices(spectrogram(sound), stop.signal).then(
    (found) => {
      spectrum = found;
      draw();
    },
    () => {}, // another sound is shown by now
  );
  const isCut = samples.length > sound.samples.length;
  return {
    element: box,
    note: isCut ? `The first ${MOST_SECONDS} s are drawn. ` : "",
    destroy() {
      stop.abort();
      frames.destroy();
      scheme.removeEventListener("change", draw);
    },
  };
}

/** @returns {import("../attention/scene.js").Scene} */
function sceneOf(sound, spectrum, width, stroke, dark) {
  const scale = weightScale(dark);
  const [fill, room] = [ink(scale, 0), Math.max(1, width - LEFT - RIGHT)];
  const shapes = [{ kind: "line", points: waveform(sound.samples, room), stroke, thickness: 1 }];
  if (spectrum) shapes.push(...spectrumShapes(spectrum, room, scale, fill));
  shapes.push(...ticks(sound.samples.length / sound.rate, room, fill));
  return { width, height: WAVE + GAP + SPECTRUM + AXIS, background: "", shapes, title: "" };
}

/** Return a line through the least and the largest sample of each pixel's column. */
function waveform(samples, room) {
  const peak = samples.reduce((most, value) => Math.max(most, Math.abs(value)), 0) || 1;
  const y = (value) => WAVE / 2 - (value / peak) * (WAVE / 2 - 2);
  const columns = Math.max(1, Math.min(Math.floor(room), samples.length));
  const points = [];
  for (let column = 0; column < columns; column += 1) {
    const [first, end] = [column, column + 1].map((at) => Math.floor((at * samples.length) / columns));
    const part = samples.subarray(first, Math.max(first + 1, end));
    const x = LEFT + ((column + 0.5) * room) / columns;
    const [low, high] = [
      part.reduce((a, b) => Math.min(a, b), 1e9),
      part.reduce((a, b) => Math.max(a, b), -1e9),
    ];
    if (part.length) points.push([x, y(low)], [x, y(high)]);
  }
  return points;
}

function spectrumShapes({ frames, highest, decibels }, room, scale, fill) {
  const most = decibels.reduce((found, value) => Math.max(found, value), -100);
  const turned = new Float32Array(decibels.length);
  for (let band = 0; band < BANDS; band += 1) {
    turned.set(decibels.subarray(band * frames, (band + 1) * frames), (BANDS - 1 - band) * frames);
  }
  const painted = pixels(scale, turned, (value) => 1 + (value - most) / SHOWN);
  const top = WAVE + GAP;
  const place = { x: LEFT, y: top, width: room, height: SPECTRUM };
  const named = { kind: "text", x: LEFT - 6, fill, size: 12, anchor: "end" };
  return [
    { kind: "cells", columns: frames, rows: BANDS, pixels: painted, ...place },
    { ...named, y: top + 11, text: `${number(highest / 1000, 2)} kHz` },
    { ...named, y: top + SPECTRUM, text: "0" },
  ];
}

/** Return the times under the pictures, at round seconds. */
function ticks(seconds, room, fill) {
  const steps = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5];
  const step = steps.find((each) => (each / seconds) * room >= 56) ?? 5;
  const base = WAVE + GAP + SPECTRUM;
  const shapes = [];
  for (let tick = 0; tick * step <= seconds; tick += 1) {
    const x = LEFT + ((tick * step) / (seconds || 1)) * room;
    shapes.push({ kind: "rect", x, y: base, width: 1, height: 4, fill });
    const anchor = x > LEFT + room - 16 ? "end" : "middle";
    shapes.push({
      kind: "text",
      x,
      y: base + 17,
      fill,
      size: 12,
      anchor,
      text: `${number(tick * step, 3)} s`,
    });
  }
  return shapes;
}
