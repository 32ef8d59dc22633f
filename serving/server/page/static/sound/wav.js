// WAV files: the samples of one, for drawing it, and the bytes of a new one.

const HEADS = ["RIFF", "RF64", "BW64"];
const [PCM, FLOAT, EXTENSIBLE] = [1, 3, 0xfffe];

/**
 * @typedef {{samples: Float32Array, rate: number}} Sound one channel, from -1 to 1, and its samples a second
 */

/** Return true for a file that begins as a WAV file does. */
export function isWav(bytes) {
  const view = viewOf(bytes);
  return bytes.length >= 12 && HEADS.includes(tag(view, 0)) && tag(view, 8) === "WAVE";
}

/**
 * Return the mean of a WAV file's channels. The server judges whether the file is whole; here what is there is read.
 * @param {Uint8Array} bytes
 * @returns {Sound}
 */
export function readWav(bytes) {
  const view = viewOf(bytes);
  const { format, begin, end } = chunksOf(view);
  const { code, channels, rate, width } = format;
  const number = READERS[`${code} ${width}`];
  if (!number || !channels || !rate)
    throw new Error("its samples are in a format that this page cannot draw");
  const step = channels * width;
  const samples = new Float32Array(Math.floor((end - begin) / step));
  for (let place = 0; place < samples.length; place += 1) {
    let sum = 0;
    for (let channel = 0; channel < channels; channel += 1) {
      sum += number(view, begin + place * step + channel * width);
    }
    samples[place] = sum / channels;
  }
  return { samples, rate };
}

/** Numbers at a byte, by format and bytes a sample; integers are scaled to -1 to 1. */
const READERS = {
  [`${PCM} 1`]: (view, place) => view.getUint8(place) / 128 - 1,
  [`${PCM} 2`]: (view, place) => view.getInt16(place, true) / 2 ** 15,
  [`${PCM} 3`]: (view, place) => (view.getInt8(place + 2) * 2 ** 16 + view.getUint16(place, true)) / 2 ** 23,
  [`${PCM} 4`]: (view, place) => view.getInt32(place, true) / 2 ** 31,
  [`${FLOAT} 4`]: (view, place) => view.getFloat32(place, true),
  [`${FLOAT} 8`]: (view, place) => view.getFloat64(place, true),
};

function chunksOf(view) {
  let format = null;
  for (let place = 12; place + 8 <= view.byteLength;) {
    const [name, size, begin] = [tag(view, place), view.getUint32(place + 4, true), place + 8];
    if (name === "fmt " && begin + 16 <= view.byteLength) format = formatAt(view, begin, size);
    if (name === "data" && format) {
      // Programs that write into a pipe leave 0 or a size that is too large.
      return { format, begin, end: Math.min(view.byteLength, begin + (size || Infinity)) };
    }
    place = begin + size + (size % 2);
  }
  throw new Error("it holds no samples");
}

function formatAt(view, begin, size) {
  const isExtended =
    view.getUint16(begin, true) === EXTENSIBLE && size >= 40 && begin + 40 <= view.byteLength;
  return {
    code: view.getUint16(isExtended ? begin + 24 : begin, true),
    channels: view.getUint16(begin + 2, true),
    rate: view.getUint32(begin + 4, true),
    width: Math.ceil(view.getUint16(begin + 14, true) / 8),
  };
}

/**
 * Return the bytes of a WAV file of one channel, in 16 bits.
 * @param {Sound} sound
 * @returns {Uint8Array}
 */
export function writeWav({ samples, rate }) {
  const size = 2 * samples.length;
  const view = new DataView(new ArrayBuffer(44 + size));
  const write = (place, text) =>
    [...text].forEach((each, at) => view.setUint8(place + at, each.charCodeAt(0)));
  write(0, "RIFF");
  view.setUint32(4, 36 + size, true);
  write(8, "WAVEfmt ");
  view.setUint32(16, 16, true); // bytes of the format
  view.setUint16(20, PCM, true);
  view.setUint16(22, 1, true); // channels
  view.setUint32(24, rate, true);
  view.setUint32(28, 2 * rate, true); // bytes a second
  view.setUint16(32, 2, true); // bytes of all channels
  view.setUint16(34, 16, true); // bits
  write(36, "data");
  view.setUint32(40, size, true);
  samples.forEach((value, place) => view.setInt16(44 + 2 * place, inSixteenBits(value), true));
  return new Uint8Array(view.buffer);
}

function inSixteenBits(value) {
  return Math.max(-(2 ** 15), Math.min(2 ** 15 - 1, Math.round(2 ** 15 * value)));
}

function viewOf(bytes) {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function tag(view, place) {
  return String.fromCharCode(...Array.from({ length: 4 }, (_, at) => view.getUint8(place + at)));
}
