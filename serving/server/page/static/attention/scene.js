/** A picture as a list of shapes, drawn alike as SVG and on a canvas. */

import { styled, svgElement } from "../dom.js";

/**
 * @typedef {object} Shape `x` and `y` are the left and the top; of a text its anchor and its base line.
 * @property {"rect" | "text" | "line" | "curve" | "cells"} kind
 * @property {number} [x]
 * @property {number} [y]
 * @property {number} [width]
 * @property {number} [height]
 * @property {string} [fill]
 * @property {string} [stroke]
 * @property {number} [thickness] of a stroke.
 * @property {number} [opacity]
 * @property {string} [text] with `size` in pixels, `anchor` as in SVG, `turn` in degrees.
 * @property {[number, number][]} [points] of a line, or of a curve: start, two controls, end.
 * @property {Uint8ClampedArray} [pixels] RGBA of `columns` times `rows` cells, row by row.
 */

/**
 * @typedef {object} Scene
 * @property {number} width
 * @property {number} height
 * @property {string} background
 * @property {Shape[]} shapes in the order they are painted.
 * @property {string} title
 */

export const FONT = "system-ui, 'Noto Sans', sans-serif";

/** Return a scene as an SVG element. */
export function svgOf({ width, height, background, shapes, title }) {
  const found = svgElement("svg", {
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    role: "img",
    "font-family": FONT,
  });
  found.append(svgElement("title", { text: title }));
  if (background) found.append(svgElement("rect", { width, height, fill: background }));
  found.append(...shapes.map(node));
  return found;
}

/**
 * Draw a scene.
 * @param {CanvasRenderingContext2D} context already scaled to the screen's pixels.
 */
function paint(context, { width, height, background, shapes }) {
  if (background) {
    context.fillStyle = background;
    context.fillRect(0, 0, width, height);
  }
  for (const shape of shapes) {
    context.globalAlpha = shape.opacity ?? 1;
    PAINTERS[shape.kind](context, shape);
  }
  context.globalAlpha = 1;
}

/**
 * Draw a scene on a canvas of its size.
 * @param {number} ratio canvas pixels for each pixel of the scene.
 */
export function drawOn(canvas, scene, ratio = window.devicePixelRatio || 1) {
  canvas.width = Math.round(scene.width * ratio);
  canvas.height = Math.round(scene.height * ratio);
  styled(canvas, { width: `${scene.width}px`, height: `${scene.height}px` });
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  paint(context, scene);
}

/** Return cells as a canvas of one pixel each. */
export function cellCanvas({ columns = 0, rows = 0, pixels }) {
  const canvas = document.createElement("canvas");
  canvas.width = columns;
  canvas.height = rows;
  if (columns && rows) {
    const image = new ImageData(pixels, columns, rows);
    canvas.getContext("2d")?.putImageData(image, 0, 0);
  }
  return canvas;
}

const PAINTERS = {
  rect(context, { x, y, width, height, fill, stroke, thickness = 1 }) {
    if (fill) {
      context.fillStyle = fill;
      context.fillRect(x, y, width, height);
    }
    if (stroke) {
      context.strokeStyle = stroke;
      context.lineWidth = thickness;
      context.strokeRect(x, y, width, height);
    }
  },
  text(context, { x, y, text, fill, size = 14, anchor = "start", turn = 0 }) {
    context.save();
    context.translate(x, y);
    context.rotate((turn * Math.PI) / 180);
    context.font = `${size}px ${FONT}`;
    context.fillStyle = fill;
    context.direction = "ltr"; // the anchor is a side of the picture, whatever the script
    context.textAlign = { start: "left", middle: "center", end: "right" }[anchor];
    context.fillText(text, 0, 0);
    context.restore();
  },
  line(context, { points, stroke, thickness = 1 }) {
    context.strokeStyle = stroke;
    context.lineWidth = thickness;
    context.beginPath();
    points.forEach(([x, y], place) => (place ? context.lineTo(x, y) : context.moveTo(x, y)));
    context.stroke();
  },
  curve(context, { points, stroke, thickness = 1 }) {
    const [start, ...others] = points;
    context.strokeStyle = stroke;
    context.lineWidth = thickness;
    context.beginPath();
    context.moveTo(...start);
    context.bezierCurveTo(...others.flat());
    context.stroke();
  },
  cells(context, shape) {
    context.imageSmoothingEnabled = false;
    context.drawImage(cellCanvas(shape), shape.x, shape.y, shape.width, shape.height);
  },
};

/** Return a shape as an SVG element. */
function node(shape) {
  const { kind, x, y, width, height, fill, stroke, thickness, opacity } = shape;
  const strokes = { stroke, "stroke-width": thickness, opacity };
  if (kind === "rect") return svgElement("rect", { x, y, width, height, fill: fill ?? "none", ...strokes });
  if (kind === "line" || kind === "curve") {
    return svgElement("path", { d: pathOf(shape), fill: "none", ...strokes });
  }
  if (kind === "cells") {
    const image = { href: cellCanvas(shape).toDataURL(), preserveAspectRatio: "none" };
    return svgElement("image", { x, y, width, height, ...image, "image-rendering": "pixelated" });
  }
  const turned = shape.turn ? `rotate(${shape.turn} ${x} ${y})` : null;
  const place = { x, y, "font-size": shape.size ?? 14, "text-anchor": shape.anchor, transform: turned };
  return svgElement("text", { ...place, fill, direction: "ltr", text: shape.text });
}

function pathOf({ kind, points }) {
  const places = points.map(([x, y]) => `${round(x)} ${round(y)}`);
  return kind === "curve" ? `M${places[0]}C${places.slice(1).join(" ")}` : `M${places.join("L")}`;
}

function round(value) {
  return Math.round(100 * value) / 100;
}
