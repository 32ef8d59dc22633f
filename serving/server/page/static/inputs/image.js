// An input of images: chosen, dropped or pasted files, sent as they are.

import { element, field, fill } from "../dom.js";

const MOST_BYTES = 20e6; // of all; a request may have 256 MiB
const CHUNK = 0x8000;

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
          const text = typeof value === "string" ? null : value.b64;
          const bytes =
            text === null
              ? new TextEncoder().encode(value)
              : Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
          return { name: `example-${index + 1}.png`, bytes, type: "image/png" };
        }),
      );
    },
  };
}

function base64(bytes) {
  let text = "";
  for (let start = 0; start < bytes.length; start += CHUNK) {
    text += String.fromCharCode(...bytes.subarray(start, start + CHUNK));
  }
  return btoa(text);
}
