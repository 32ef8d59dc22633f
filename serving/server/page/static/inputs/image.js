// An input of images: chosen, dropped or pasted files, sent as they are.

import { base64, bytesOf } from "../bytes.js";
import { element, field, fill } from "../dom.js";

const MOST_BYTES = 20e6; // of all; a request may have 256 MiB

/**
 * @param {{input: string}} way
 * @param {() => void} onChange
 */
export function imageInput(way, onChange) {
  /** @type {{name: string, data: string, size: number, url: string}[]} */
  let images = [];
  const shown = element("ul", { class: "images", "aria-label": "Chosen images" });
  const trouble = element("p", { class: "trouble", role: "alert" });
  const picker = element("input", {
    type: "file",
    accept: "image/*",
    multiple: true,
    onchange: () => take([...picker.files]),
  });
  const box = element(
    "div",
    { class: "input drop" },
    field("Images", picker, "Choose files, drop them here, or paste a picture (Ctrl-V)."),
    trouble,
    shown,
  );

  async function take(files) {
    const chosen = files.filter(
      (file) => file.type.startsWith("image/") || /\.(png|jpe?g|gif|bmp)$/i.test(file.name),
    );
    trouble.textContent = "";
    if (!chosen.length) {
      trouble.textContent = files.length ? `${files[0].name} is no image.` : "";
      return;
    }
    if (chosen.reduce((sum, file) => sum + file.size, 0) > MOST_BYTES) {
      trouble.textContent = `Images can have ${MOST_BYTES / 1e6} MB together here.`;
      return;
    }
    const read = await Promise.all(
      chosen.map(async (file) => [file, new Uint8Array(await file.arrayBuffer())]),
    );
    show(read.map(([file, bytes]) => ({ name: file.name || "pasted.png", bytes, type: file.type })));
  }

  function show(found) {
    images.forEach(({ url }) => URL.revokeObjectURL(url));
    images = found.map(({ name, bytes, type }) => ({
      name,
      data: base64(bytes),
      size: bytes.length,
      url: URL.createObjectURL(new Blob([bytes], { type })),
    }));
    fill(
      shown,
      images.map(({ name, url }) =>
        element("li", {}, element("img", { src: url, alt: name }), element("bdi", {}, name)),
      ),
    );
    onChange();
  }

  box.addEventListener("dragover", (event) => event.preventDefault());
  box.addEventListener("drop", (event) => {
    event.preventDefault();
    take([...event.dataTransfer.files]);
  });
  document.addEventListener("paste", (event) => {
    if (box.isConnected && box.checkVisibility() && event.clipboardData.files.length)
      take([...event.clipboardData.files]);
  });

  return {
    element: box,
    size: () => images.reduce((sum, image) => sum + image.size, 0),
    read() {
      const names = images.map(({ name }) => name);
      return {
        inputs: { [way.input]: images.map(({ data }) => ({ b64: data })) },
        titles: names,
        words: names,
        files: names,
      };
    },
    set(values) {
      show(
        values[way.input].map((value, index) => {
          return { name: `example-${index + 1}.png`, bytes: bytesOf(value), type: "image/png" };
        }),
      );
    },
  };
}

/** Return the pixels of an image file as it is shown, which the model reads, too: numbers from 0 to 255. */
export async function pixelsOf(file, { inputs }) {
  const bitmap = await createImageBitmap(new Blob([bytesOf(file)]), { colorSpaceConversion: "none" });
  const { width, height } = bitmap;
  const context = new OffscreenCanvas(width, height).getContext("2d");
  context.drawImage(bitmap, 0, 0);
  const { data } = context.getImageData(0, 0, width, height);
  const channels = Object.values(inputs)[0].shape?.[3] ?? 3;
  const pixels = new Float32Array(width * height * channels);
  for (let place = 0; place < width * height; place += 1) {
    const colours = data.subarray(4 * place, 4 * place + 3);
    if (channels === 1) pixels[place] = grey(colours);
    else pixels.set(colours, channels * place);
  }
  return { image: { pixels, height, width, channels } };
}

/** As TensorFlow's decoders: the luma of ITU-R BT.601. */
function grey([red, green, blue]) {
  return Math.round(0.299 * red + 0.587 * green + 0.114 * blue);
}
