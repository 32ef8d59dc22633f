// Runs beside the page, in the audio thread: hands on the microphone's samples, a block at a time.

class Capture extends AudioWorkletProcessor {
  process([[channel]]) {
    if (channel) this.port.postMessage(channel.slice()); // the browser uses the block again
    return true;
  }
}

registerProcessor("capture", Capture);
