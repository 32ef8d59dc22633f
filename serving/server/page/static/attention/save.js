/** What is seen, as a file: PNG, SVG, or a page of its own without any script. */

import { element } from "../dom.js";
import { drawOn, svgOf } from "./scene.js";

/** Pixels of a PNG for each pixel on the page. */
const RATIO = 2;

const STYLE =
  "body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem}" +
  "svg{max-width:100%;height:auto}table{border-collapse:collapse}" +
  "th,td{padding:.2rem .8rem;text-align:start;border-bottom:1px solid #8886}td+td{text-align:end}";

/** Of STYLE: the page allows this style alone. A test computes it again. */
const STYLE_HASH = "sha256-unlnP/Be13VMv7+MAo0+FNmVQ/HdXF19bejRDU72aGU=";

/**
 * @typedef {object} Seen
 * @property {import("./scene.js").Scene} scene
 * @property {string[]} sentences about it.
 * @property {[string, string][]} rows names and values of what stands out.
 */

export async function savePng({ scene }) {
  const canvas = document.createElement("canvas");
  drawOn(canvas, scene, RATIO);
  const blob = await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  download(blob, `${fileName(scene.title)}.png`);
}

export function saveSvg({ scene }) {
  const text = new XMLSerializer().serializeToString(svgOf(scene));
  download(new Blob([text], { type: "image/svg+xml" }), `${fileName(scene.title)}.svg`);
}

export function saveHtml(seen) {
  const page = new Blob([pageOf(seen)], { type: "text/html;charset=utf-8" });
  download(page, `${fileName(seen.scene.title)}.html`);
}

/** Return a page that needs nothing else and allows nothing else. */
export function pageOf({ scene, sentences, rows }) {
  const page = document.implementation.createHTMLDocument(scene.title);
  const policy = `default-src 'none'; img-src data:; style-src '${STYLE_HASH}'`;
  page.head.prepend(
    element("meta", { charset: "utf-8" }),
    element("meta", { "http-equiv": "Content-Security-Policy", content: policy }),
    element("meta", { name: "viewport", content: "width=device-width" }),
  );
  page.documentElement.lang = document.documentElement.lang || "en";
  page.body.append(
    element("h1", { text: scene.title }),
    svgOf(scene),
    ...sentences.map((text) => element("p", { text })),
    element("table", {}, rows.map(rowOf)),
  );
  // As text: a style element here would be this page's own, which its policy forbids.
  const markup = page.documentElement.outerHTML.replace("</head>", `<style>${STYLE}</style></head>`);
  return `<!doctype html>\n${markup}\n`;
}

function rowOf([name, value]) {
  const cells = [element("td", {}, [element("bdi", { text: name })]), element("td", { text: value })];
  return element("tr", {}, cells);
}

function download(blob, name) {
  const href = URL.createObjectURL(blob);
  element("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60_000);
}

function fileName(title) {
  const words = title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "");
  return words.slice(0, 80).toLowerCase() || "attention";
}
