// Files of sound that are no WAV: the browser decodes them.

const RATE = 48_000; // Hz; the browser resamples to a rate that it is told, and most have no higher one

/**
 * Return the mean of the channels of a file in any format that the browser knows, such as MP3 or FLAC.
 * @param {Uint8Array} bytes
 * @returns {Promise<import("./wav.js").Sound>}
 */
export async function decode(bytes) {
  const context = new OfflineAudioContext(1, 1, RATE);
  const decoded = await context.decodeAudioData(bytes.slice().buffer); // it takes the buffer away
  const { numberOfChannels: channels, length, sampleRate } = decoded;
  const samples = new Float32Array(length);
  for (let channel = 0; channel < channels; channel += 1) {
    const values = decoded.getChannelData(channel);
    for (let place = 0; place < length; place += 1) samples[place] += values[place] / channels;
  }
  return { samples, rate: sampleRate };
}
