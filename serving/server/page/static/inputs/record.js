// A button that records the microphone, and the time that it has recorded.

import { element, freshId } from "../dom.js";
import { reasonOf, record, whyNoMicrophone } from "../sound/microphone.js";

const MOST_SECONDS = 60;
const TICK_MILLISECONDS = 200;

/**
 * @param {(sound: import("../sound/wav.js").Sound) => void} onSound
 * @param {(text: string) => void} onTrouble called with "" where there is none any more
 */
export function recordButton(onSound, onTrouble) {
  const why = whyNoMicrophone();
  const hint = element("small", { id: freshId() }, why || `Up to ${MOST_SECONDS} seconds.`);
  const clock = element("span", { role: "timer", class: "figure" });
  const named = { type: "button", disabled: Boolean(why), "aria-describedby": hint.id };
  const button = element("button", { ...named, onclick: () => (running ? end() : begin()) }, "Record");
  const box = element("div", { class: "record" }, element("div", { class: "inline" }, button, clock), hint);
  let running = null;
  let isAsking = false; // for the permission
  let timer = 0;

  async function begin() {
    if (isAsking) return;
    isAsking = true;
    onTrouble("");
    try {
      running = await record(end);
      button.textContent = "Stop recording";
      timer = setInterval(tick, TICK_MILLISECONDS);
      tick();
    } catch (error) {
      onTrouble(reasonOf(error));
    }
    isAsking = false;
  }

  function tick() {
    const seconds = Math.floor(running.count() / running.rate);
    clock.textContent = `${seconds} of ${MOST_SECONDS} s`;
    if (seconds >= MOST_SECONDS || !box.isConnected) end(); // another model may take no sound
  }

  function end() {
    if (!running) return;
    const { rate } = running;
    const samples = running.stop().subarray(0, MOST_SECONDS * rate);
    running = null;
    clearInterval(timer);
    button.textContent = "Record";
    clock.textContent = "";
    if (samples.length) onSound({ samples, rate });
    else onTrouble("The microphone gave no sound.");
  }

  return box;
}
