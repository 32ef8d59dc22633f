/**
 * The mel spectrogram of a sound, for looking at it: decibels by band and time.
 *
 * Axes: T (frames), M (mel bands), K (bins of the spectrum).
 */

const FRAME = 0.025; // seconds
const HOP = 0.01;
const HIGHEST = 8000; // Hz
export const BANDS = 64;

/**
 * Compute a spectrogram, a frame a step.
 * @param {import("./wav.js").Sound} sound
 * @returns {Generator<void, {frames: number, highest: number, decibels: Float32Array}>} T, the upper edge of the last
 *   band in Hz, and `[M, T]` decibels from the lowest band on
 */
export function* spectrogram({ samples, rate }) {
  const [size, hop] = [Math.max(2, Math.round(FRAME * rate)), Math.max(1, Math.round(HOP * rate))];
  const padded = 2 ** Math.ceil(Math.log2(size));
  const frames = Math.max(1, Math.ceil(samples.length / hop));
  const { highest, weights } = melBands(rate, padded);
  const window = Float64Array.from({ length: size }, (_, at) => Math.sin((Math.PI * (at + 0.5)) / size) ** 2);
  const power = spectra(padded);
  const decibels = new Float32Array(BANDS * frames);
  const framed = new Float64Array(padded);
  for (let frame = 0; frame < frames; frame += 1) {
    framed.fill(0);
    const part = samples.subarray(frame * hop, frame * hop + size);
    for (let at = 0; at < part.length; at += 1) framed[at] = part[at] * window[at];
    const found = power(framed);
    weights.forEach((band, row) => {
      const sum = band.reduce((total, [bin, weight]) => total + weight * found[bin], 0);
      decibels[row * frames + frame] = 10 * Math.log10(sum + 1e-10);
    });
    yield;
  }
  return { frames, highest, decibels };
}

/** Return the weights of the bins in each band, triangles evenly spaced in mel, of bins with a weight alone. */
function melBands(rate, padded) {
  const highest = Math.min(HIGHEST, rate / 2);
  const bin = rate / padded;
  const edge = (place) => hertz((place / (BANDS + 1)) * mel(highest));
  const weights = Array.from({ length: BANDS }, (_, band) => {
    const centre = edge(band + 1);
    const width = Math.max(bin, (edge(band + 2) - edge(band)) / 2); // or a low band could hold no bin
    const found = [];
    for (let at = Math.ceil((centre - width) / bin); at * bin < centre + width; at += 1) {
      if (at >= 0 && at <= padded / 2) found.push([at, 1 - Math.abs(at * bin - centre) / width]);
    }
    return found;
  });
  return { highest, weights };
}

function mel(frequency) {
  return 2595 * Math.log10(1 + frequency / 700);
}

function hertz(mels) {
  return 700 * (10 ** (mels / 2595) - 1);
}

/**
 * Return the function from `size` real numbers, a power of two, to the power of their spectrum, `[K]` with
 * K = size / 2 + 1; each call overwrites its last result. Reference: Cooley and Tukey 1965.
 */
export function spectra(size) {
  const [real, imaginary] = [new Float64Array(size), new Float64Array(size)];
  const found = new Float64Array(size / 2 + 1);
  const turns = Float64Array.from({ length: size }, (_, at) => (-2 * Math.PI * at) / size);
  const [cosines, sines] = [turns.map(Math.cos), turns.map(Math.sin)];
  const order = reversedBits(size);
  return (values) => {
    for (let at = 0; at < size; at += 1) real[at] = values[order[at]];
    imaginary.fill(0);
    for (let half = 1; half < size; half *= 2) merge(real, imaginary, half, cosines, sines);
    for (let at = 0; at < found.length; at += 1) found[at] = real[at] ** 2 + imaginary[at] ** 2;
    return found;
  };
}

/** Make spectra of twice `half` numbers of each two of `half`, in place. */
function merge(real, imaginary, half, cosines, sines) {
  const step = real.length / (2 * half);
  for (let start = 0; start < real.length; start += 2 * half) {
    for (let at = 0; at < half; at += 1) {
      const [even, odd] = [start + at, start + at + half];
      const [cosine, sine] = [cosines[at * step], sines[at * step]];
      const turned = real[odd] * cosine - imaginary[odd] * sine;
      const aside = real[odd] * sine + imaginary[odd] * cosine;
      real[odd] = real[even] - turned;
      imaginary[odd] = imaginary[even] - aside;
      real[even] += turned;
      imaginary[even] += aside;
    }
  }
}

function reversedBits(size) {
  const found = new Uint32Array(size);
  for (let at = 1; at < size; at += 1) found[at] = (found[at >> 1] >> 1) | (at & 1 ? size >> 1 : 0);
  return found;
}
