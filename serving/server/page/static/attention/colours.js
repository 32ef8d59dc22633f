/**
 * Colour scales, computed in OKLab: lightness alone tells the values apart, so that every kind of sight can.
 *
 * Reference: Ottosson 2020, "A perceptual color space for image processing".
 */

const STEPS = 256;

/**
 * @typedef {object} Scale colours of values from 0 to 1.
 * @property {Uint8ClampedArray} bytes `[256, 3]`
 */

/** @type {Map<string, Scale>} */
const known = new Map();

/** Return the scale of weights: from the page's background to what stands out most from it. */
export function weightScale(dark) {
  return scaleOf(`weights ${dark}`, (at) => {
    const lightness = dark ? 0.205 + 0.715 * at : 0.985 - 0.62 * at;
    const chroma = 0.004 + 0.146 * Math.sin((Math.PI * at) / 1.25) ** 0.8;
    return oklch(lightness, chroma, dark ? 270 - 170 * at : 100 + 160 * at);
  });
}

/**
 * Return the scale of changes: 0 is much less, one half is no change, 1 much more. Orange and blue differ for
 * every kind of sight; signs say the same.
 */
export function changeScale(dark) {
  return scaleOf(`changes ${dark}`, (at) => {
    const far = Math.abs(2 * at - 1);
    return oklch(dark ? 0.22 + 0.5 * far : 0.985 - 0.4 * far, 0.15 * far, at < 0.5 ? 55 : 250);
  });
}

/**
 * @param {number} at from 0 to 1.
 * @returns {string} the colour in CSS.
 */
export function colour(scale, at) {
  const [red, green, blue] = rgb(scale, at);
  return `rgb(${red}, ${green}, ${blue})`;
}

/** Return black or white, whichever reads better on a colour: the better one has a contrast of 4.5 at least. */
export function ink(scale, at) {
  return luminance(rgb(scale, at)) > 0.179 ? "#000" : "#fff";
}

/**
 * Paint values as pixels, RGBA.
 * @param {ArrayLike<number>} values from 0 to 1 after `at`.
 */
export function pixels(scale, values, at) {
  const found = new Uint8ClampedArray(4 * values.length);
  for (let place = 0; place < values.length; place += 1) {
    const step = 3 * stepOf(at(values[place]));
    found[4 * place] = scale.bytes[step];
    found[4 * place + 1] = scale.bytes[step + 1];
    found[4 * place + 2] = scale.bytes[step + 2];
    found[4 * place + 3] = 255;
  }
  return found;
}

/** Return the relative luminance of an sRGB colour; WCAG 2.2. */
export function luminance(bytes) {
  const [red, green, blue] = [0, 1, 2].map((place) => linear(bytes[place] / 255));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

/** True if an element is light on dark, whoever chose it. */
export function isDark(node) {
  // Of the text, which is opaque even before the style sheet has come.
  return luminance((getComputedStyle(node).color.match(/[\d.]+/g) ?? ["0", "0", "0"]).map(Number)) > 0.179;
}

function rgb(scale, at) {
  const step = 3 * stepOf(at);
  return scale.bytes.subarray(step, step + 3);
}

function stepOf(at) {
  return Math.max(0, Math.min(STEPS - 1, Math.round(at * (STEPS - 1)) || 0));
}

function scaleOf(name, colourAt) {
  const found = known.get(name) ?? { bytes: new Uint8ClampedArray(3 * STEPS) };
  if (!known.has(name)) {
    for (let step = 0; step < STEPS; step += 1) found.bytes.set(colourAt(step / (STEPS - 1)), 3 * step);
    known.set(name, found);
  }
  return found;
}

/** Return sRGB bytes of a colour, with as much of its chroma as a screen can show. */
function oklch(lightness, chroma, degrees) {
  for (let strength = chroma; ; strength *= 0.99) {
    const parts = linearRgb(lightness, strength, (degrees * Math.PI) / 180);
    if (strength < 1e-3 || parts.every((part) => part >= -1e-4 && part <= 1.0001)) {
      return parts.map((part) => 255 * encoded(Math.max(0, Math.min(1, part))));
    }
  }
}

function linearRgb(lightness, chroma, angle) {
  const [a, b] = [chroma * Math.cos(angle), chroma * Math.sin(angle)];
  const long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const short = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
    -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
    -0.0041960863 * long - 0.7034186147 * medium + 1.707614701 * short,
  ];
}

function encoded(part) {
  return part <= 0.0031308 ? 12.92 * part : 1.055 * part ** (1 / 2.4) - 0.055;
}

function linear(part) {
  return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
}
