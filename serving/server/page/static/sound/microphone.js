// The microphone: its samples as it gives them, at the rate of the browser's audio.

// What makes speech clear to a listener takes away other sounds.
const AS_IT_IS = { echoCancellation: false, noiseSuppression: false, autoGainControl: false };

/** Return why the page cannot record; "" if it can. */
export function whyNoMicrophone() {
  if (navigator.mediaDevices?.getUserMedia && window.AudioWorkletNode) return "";
  return "Browsers let a page record on localhost or over TLS alone. Open it so, or choose a file.";
}

/**
 * Ask for the microphone, and begin to record.
 * @param {() => void} onGone called if it is unplugged, or taken away
 * @returns {Promise<{rate: number, count: () => number, stop: () => Float32Array}>} samples a second, samples until
 *   now, and the function that ends it and returns them
 */
export async function record(onGone) {
  const stream = await navigator.mediaDevices.getUserMedia({ audio: AS_IT_IS });
  const context = new AudioContext();
  const end = () => {
    stream.getTracks().forEach((track) => track.stop());
    context.close();
  };
  try {
    return { ...(await captured(stream, context, onGone, end)), rate: context.sampleRate };
  } catch (error) {
    end();
    throw error;
  }
}

async function captured(stream, context, onGone, end) {
  await context.audioWorklet.addModule(new URL("./capture.js", import.meta.url));
  const blocks = [];
  let count = 0;
  const node = new AudioWorkletNode(context, "capture", { channelCount: 1, channelCountMode: "explicit" });
  node.port.onmessage = ({ data }) => {
    blocks.push(data);
    count += data.length;
  };
  // To the speakers, too, which get silence: some browsers run nothing else.
  context.createMediaStreamSource(stream).connect(node).connect(context.destination);
  stream.getTracks().forEach((track) => track.addEventListener("ended", onGone));
  await context.resume();
  const stop = () => {
    end();
    return joined(blocks, count);
  };
  return { count: () => count, stop };
}

function joined(blocks, count) {
  const found = new Float32Array(count);
  let place = 0;
  for (const block of blocks) {
    found.set(block, place);
    place += block.length;
  }
  return found;
}

/** Return what a person reads of an error of `record`. */
export function reasonOf(error) {
  const reasons = {
    NotAllowedError:
      "The browser does not let this page use the microphone. Allow it in the site's settings.",
    NotFoundError: "There is no microphone.",
    NotReadableError: "The microphone cannot be read: another program may use it.",
  };
  return reasons[error.name] ?? `The microphone cannot be used: ${error.message}`;
}
