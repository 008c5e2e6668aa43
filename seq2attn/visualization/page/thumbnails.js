// All heads of a layer, or of all layers, as small maps.

import { headNames, matrix, shares } from "explorer/data.js";
import { button, color, make } from "explorer/dom.js";

const SIZE = 56;

/** All heads of the layer, or of all layers if there are few, as small maps; each is a button. */
export function thumbnails(map, layer, head, app) {
  const names = headNames(map),
    count = names.length * map.layers.length,
    box = make("div", { className: "thumbnails" });
  if (count < 2) return box;
  const layers = count <= 64 ? map.layers.map((_, i) => i) : [layer];
  for (const one of layers) {
    const buttons = names.map((name, i) => {
      const label = `layer ${map.layers[one]}, ${Number(name) ? `head ${name}` : "mean of heads"}`,
        properties = { title: label, ariaLabel: label, ariaPressed: one === layer && i === head };
      const open = () => app.set({ layer: String(one), head: String(i) });
      return button(thumbnail(map, one, i, app.state.scale), open, properties);
    });
    box.append(make("div", { role: "group", ariaLabel: `layer ${map.layers[one]}` }, ...buttons));
  }
  return box;
}

const drawn = new WeakMap(); // small maps, which another selection does not draw again

function thumbnail(map, layer, head, scale) {
  const hex = color("full"),
    key = [layer, head, scale, hex].join(),
    cache = drawn.get(map) ?? drawn.set(map, {}).get(map);
  return (cache[key] ??= smallMap(shares(matrix(map, layer, head), scale), hex));
}

function smallMap(rows, hex) {
  const [width, height] = [rows[0].length, rows.length],
    cell = Math.max(SIZE / Math.max(width, height), 1 / (window.devicePixelRatio || 1)), // at least a pixel
    canvas = make("canvas", { width, height });
  const context = canvas.getContext("2d"),
    image = context.createImageData(width, height),
    pixels = new Uint32Array(image.data.buffer);
  const [red, green, blue] = [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16));
  rows.forEach((row, q) =>
    row.forEach((share, k) => {
      pixels[q * width + k] = (Math.round(255 * share) << 24) | (blue << 16) | (green << 8) | red; // little-endian
    }),
  );
  context.putImageData(image, 0, 0);
  const [styleWidth, styleHeight] = [width, height].map(count => `${Math.max(8, cell * count)}px`);
  Object.assign(canvas.style, { width: styleWidth, height: styleHeight });
  return canvas;
}
