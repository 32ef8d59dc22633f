// An input of one recording: a file, or what the microphone hears. A WAV file is sent as it is.

import { base64, bytesOf } from "../bytes.js";
import { element, field, fill, foreign } from "../dom.js";
import { recordButton } from "./record.js";

const MOST_BYTES = 60e6; // ten minutes of 48 kHz in 16 bits; a request may have 256 MiB
const AT_ONCE = 2e6; // bytes
const TYPES = "audio/*,.wav,.mp3,.ogg,.oga,.opus,.flac,.m4a,.aac,.webm";

/**
 * @param {{input: string}} way
 * @param {() => void} onChange
 */
export function audioInput(way, onChange) {
  let recording = null;
  let data = ""; // its bytes in Base64
  let recorded = 0;
  let asked = 0;
  const shown = soundView();
  const trouble = element("p", { class: "trouble", role: "alert" });
  const say = (text) => (trouble.textContent = text);
  const picker = element("input", {
    type: "file",
    accept: TYPES,
    onclick: forget, // so that the same file can be chosen again
    onchange: () => take([...picker.files]),
  });
  const hint =
    "Choose a file or drop it here: WAV as it is, or MP3, Ogg, FLAC or M4A, which the browser decodes.";
  const record = recordButton((sound) => {
    recorded += 1;
    forget();
    show(({ ofSamples }) => ofSamples(`recording-${recorded}.wav`, sound, "recorded"));
  }, say);
  const box = element(
    "div",
    { class: "input drop" },
    field("Sound file", picker, hint),
    record,
    trouble,
    shown.element,
  );
  box.addEventListener("dragover", (event) => event.preventDefault());
  box.addEventListener("drop", (event) => {
    event.preventDefault();
    forget();
    take([...event.dataTransfer.files]);
  });

  function forget() {
    picker.value = "";
  }

  async function take([file, ...more]) {
    if (!file) return;
    say(more.length ? `One recording at a time here: this is ${file.name}.` : "");
    if (file.size > MOST_BYTES) say(`A recording can have ${MOST_BYTES / 1e6} MB here.`);
    else show(async ({ ofFile }) => ofFile(file.name, new Uint8Array(await file.arrayBuffer())));
  }

  /** Show the recording that a function makes, unless another one is asked for meanwhile. */
  async function show(make) {
    const own = (asked += 1);
    try {
      // Loaded only now: most models take no sound, and the page is there sooner.
      const [sounds, { soundPicture }] = await Promise.all([
        import("../sound/sounds.js"),
        import("../sound/picture.js"),
      ]);
      const found = await make(sounds);
      if (own !== asked) return;
      if (found.bytes.length > MOST_BYTES)
        throw new Error(`As WAV, a recording can have ${MOST_BYTES / 1e6} MB here.`);
      recording = found;
      data = base64(found.bytes);
      shown.show(found, soundPicture);
      onChange();
    } catch (error) {
      if (own === asked) say(error.message);
    }
  }

  return {
    element: box,
    // It changes as a whole, not letter by letter: a short one is asked at once.
    size: () => (recording && recording.bytes.length > AT_ONCE ? recording.bytes.length : 0),
    read() {
      const names = recording ? [recording.name] : [];
      return {
        inputs: { [way.input]: recording ? [{ b64: data }] : [] },
        titles: names,
        words: names,
        files: names,
      };
    },
    set(values) {
      forget();
      say("");
      show(({ ofWav }) => ({ ...ofWav("example.wav", bytesOf(values[way.input][0])), isMade: true }));
    },
  };
}

/** A place for a recording: its name, a player, its picture, and its file if only the page has it. */
function soundView() {
  const box = element("div", { class: "sound" });
  const told = element("p", { class: "note", role: "status" });
  const place = element("div", { class: "sound" });
  let picture = null;
  let url = "";
  fill(box, told, place);
  return {
    element: box,
    show({ name, bytes, isMade, sound, told: sentence }, soundPicture) {
      picture?.destroy();
      URL.revokeObjectURL(url);
      url = URL.createObjectURL(new Blob([bytes], { type: "audio/wav" }));
      picture = sound && soundPicture(name, sound);
      fill(told, foreign(name), `: ${sentence} ${picture?.note ?? ""}`);
      fill(
        place,
        sound && element("audio", { controls: true, src: url, "aria-label": `Play ${name}` }),
        picture?.element,
        isMade && element("a", { href: url, download: name }, "Save this WAV file"),
      );
    },
  };
}

/** Return a WAV file with its samples, over which attention is shown. */
export async function soundOf(value) {
  const { readWav } = await import("../sound/wav.js");
  const bytes = bytesOf(value);
  return { sound: { bytes, ...readWav(bytes) } };
}
