// Recordings as they are sent: WAV files, from files of any format, from samples, or from a request.

import { decode } from "./decode.js";
import { number } from "../dom.js";
import { isWav, readWav, writeWav } from "./wav.js";

/**
 * @typedef {Object} Recording
 * @property {string} name of its file
 * @property {Uint8Array} bytes of the WAV file
 * @property {boolean} isMade true if only the page has the WAV file: it can be saved
 * @property {import("./wav.js").Sound|null} sound null if it cannot be drawn
 * @property {string} told what a person reads of it
 */

/**
 * Return a file as a recording: a WAV file as it is, of others what the browser decodes.
 * @param {string} name
 * @param {Uint8Array} bytes
 * @returns {Promise<Recording>}
 */
export async function ofFile(name, bytes) {
  if (isWav(bytes)) return ofWav(name, bytes);
  try {
    return ofSamples(`${name}.wav`, await decode(bytes), "decoded by the browser");
  } catch {
    throw new Error(
      `The browser cannot read ${name} as sound. Choose a WAV file, or MP3, Ogg, FLAC or M4A if it plays them.`,
    );
  }
}

/** Return a WAV file as a recording; whether the model takes it is the server's to say. */
export function ofWav(name, bytes) {
  const found = { name, bytes, isMade: false, sound: null };
  try {
    const sound = readWav(bytes);
    return { ...found, sound, told: describe(sound, "at") };
  } catch (error) {
    return { ...found, told: `This WAV file cannot be drawn: ${error.message}. It is sent as it is.` };
  }
}

/** Return samples as a recording; `how` says where they come from. */
export function ofSamples(name, sound, how) {
  return { name, bytes: writeWav(sound), isMade: true, sound, told: describe(sound, `${how} at`) };
}

function describe({ samples, rate }, how) {
  return `${(samples.length / rate).toFixed(2)} s, ${how} ${number(rate)} Hz.`;
}
