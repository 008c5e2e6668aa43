// Attention maps: one layer and head large, all heads of the layer small; windows, choices and steps as what they are.

import { byWord, headNames, largest, matrix, shape, shares, sum } from "explorer/data.js";
import { canvasOf, center, choice, color, fixed, isolate, make, menu, readable, writeName } from "explorer/dom.js";
import { thumbnails } from "explorer/thumbnails.js";
import { wordOf } from "explorer/tree.js";

const SCALES = [
  ["max", "largest"],
  ["row", "each row"],
  ["0-1", "0 to 1"],
];
const UNITS = [["tokens"], ["words"]];
const MAX_CELL = 22,
  MAX_NAME = 8, // length of the names of rows and columns, in sizes of their font
  SPACE = 10, // around them
  READABLE = 10, // pixels of a cell
  MAX_NAMED = 56, // tokens, all of whose names are shown
  MIN_CELL = 4; // of a map of many tokens, without names

export function drawAttention(section, app) {
  const { current, state } = app,
    attention = current.attention;
  const textContent = `${attention ? "This model" : "An ensemble"} has no attention to draw.`;
  if (!attention || !Object.keys(attention).length) return section.replaceChildren(make("p", { textContent }));
  const kinds = Object.keys(attention).map(name => [name]),
    kind = attention[state.kind] ? state.kind : kinds[0][0],
    map = attention[kind];
  const heads = headNames(map),
    layer = within(state.layer, map.layers),
    head = within(state.head, heads);
  const view = select(map, layer, head, state),
    status = make("p", { className: "status", role: "status", textContent: HINT });
  const part = (name, names, selected) =>
    names.length > 1 ? [menu(name, names, selected, value => app.set({ [name]: String(value) }))] : [];
  const controls = make(
    "p",
    { className: "controls" },
    ...(state.hypothesis ? [make("h2", { textContent: "of the best translation" })] : []),
    choice("kind of attention", kinds, kind, value => app.set({ kind: value, layer: "", head: "" })),
    ...part("layer", map.layers, layer),
    ...part("head", heads, head),
    choice("unit", UNITS, state.words ? "words" : "tokens", value => app.set({ words: value === "words" })),
    choice("scale of colors", SCALES, state.scale, value => app.set({ scale: value })),
    legend(view, state.scale),
  );
  const hasWords = kind !== "encoder" && !state.words, // rows that are tokens of the translation
    say = text => (status.textContent = text || HINT),
    onQuery = word => hasWords && app.set({ hypothesis: 0, node: null, other: null, reason: "what mattered", word });
  const word = wordOf(app),
    start = hasWords && !state.hypothesis && word !== null ? [word, null] : null;
  const scroll = make("div", { className: "scroll" }),
    maps = make("div", { className: "maps" }, scroll);
  section.replaceChildren(controls, maps, thumbnails(map, layer, head, app), status);
  drawMap(scroll, view, { kind: map.kind, say, onQuery, start });
}

const HINT = "Point at a token or a cell to read its largest weights; arrow keys move in the map.";
/** A selected number of a list, else its last. */
const within = (text, list) => (text !== "" && Number(text) < list.length ? Number(text) : list.length - 1);

/** The selected weights with the names of rows and columns. */
export function select(map, layer, head, { words, scale }) {
  const tokens = matrix(map, layer, head),
    weights = words ? byWord(tokens, map.queries, map.keys) : tokens;
  const names = side => (words ? side.words : side.tokens).map(readable);
  return {
    queries: names(map.queries),
    keys: names(map.keys),
    weights,
    shares: shares(weights, scale),
    shape: shape(weights, words ? null : map.windows?.[layer][head]),
  };
}

function legend(view, scale) {
  const full = scale === "max" ? largest(view.weights.map(largest)) : 1;
  const name = scale === "row" ? "weight / largest of its row" : "weight",
    bar = make("span", { className: "bar", role: "img", ariaLabel: "color scale" });
  return make("span", { className: "scale" }, `${name} 0 `, bar, ` ${Number(full.toPrecision(2))}`);
}

/** A difference of two weights that is marked. */
export const DIFFERENCE = 0.1;

/** How much more weight a cell has than that of the same words in the map beside it; NaN without one. */
const gain = ({ weights, beside }, q, k) =>
  beside ? weights[q]?.[k] - beside.weights[beside.rows.get(q)]?.[beside.columns.get(k)] : NaN;
export const differs = (view, q, k) => Math.abs(gain(view, q, k)) >= DIFFERENCE - 5e-4; // as it is shown

/** A map in an element, as large as there is room; `start`: selected cell. */
export function drawMap(box, view, { kind = "cross", say, onQuery = () => {}, start = null }) {
  const { queries, keys } = view,
    ariaLabel = `${kind} attention: ${queries.length} rows, ${keys.length} columns`,
    canvas = make("canvas", { tabIndex: 0, role: "application", ariaLabel });
  const measure = make("canvas").getContext("2d"),
    coverage = kind === "cross" ? 26 : 0;
  measure.font = "10px system-ui, sans-serif";
  const longest = names => Math.min(MAX_NAME, largest(names.map(name => measure.measureText(name).width / 10)));
  const [side, above] = [longest(queries), longest(keys)],
    fit = (room, count, name) => (room - SPACE + name) / (count + name); // the font is a pixel less than a cell
  const tall = (box.clientHeight || Infinity) - coverage, // an element without height grows, and the page scrolls
    room = Math.min(fit(box.clientWidth, keys.length, side), fit(tall, queries.length, above)),
    smallest = Math.max(queries.length, keys.length) > MAX_NAMED ? MIN_CELL : READABLE;
  const cell = Math.floor(Math.max(smallest, Math.min(MAX_CELL, room))),
    font = Math.max(8, Math.min(13, cell - 1)),
    [left, top] = [side * font + SPACE - 2, above * font + SPACE - 2];
  const width = left + keys.length * cell + 2,
    height = top + queries.length * cell + coverage + 2;
  let at = start;
  const redraw = () => paint(canvasOf(canvas, width, height), view, { cell, left, top, font, at, coverage });
  const move = (q, k) => {
    const isInside = q < queries.length && k < keys.length && Math.max(q, k) >= 0;
    at = isInside ? [q, k].map(place => (place < 0 ? null : place)) : start; // null: all, as at a name
    redraw();
    const text = isInside ? describe(view, at, coverage) : "";
    say(text);
    if (view.beside) canvas.title = text;
  };
  canvas.addEventListener("mousemove", ({ offsetX, offsetY }) =>
    move(Math.floor((offsetY - top) / cell), Math.floor((offsetX - left) / cell)),
  );
  canvas.addEventListener("mouseleave", () => move(-1, -1));
  const choose = () => typeof at?.[0] === "number" && onQuery(at[0]);
  canvas.addEventListener("click", choose);
  canvas.addEventListener("keydown", event => {
    const [dq, dk] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key] ?? [];
    if (event.key === "Enter") choose();
    if (dq === undefined) return;
    event.preventDefault();
    const next = (value, step, names) => Math.min(names.length - 1, (value ?? -1) + step),
      [q, k] = at ? [next(at[0], dq, queries), next(at[1], dk, keys)] : [0, 0];
    if (Math.max(q, k) < 0) return;
    move(q, k);
    center(box, left + k * cell, top + q * cell);
  });
  redraw();
  box.replaceChildren(canvas);
}

function paint(context, view, { cell, left, top, font, at, coverage }) {
  const [ink, faint, full, line, mark] = ["ink", "faint", "full", "line", "mark"].map(color),
    { queries, keys, weights, beside, shape: form } = view;
  const nameStyle = (side, i) => {
    const isOther = beside && !beside[side].has(i); // a word that the other map has not
    context.fillStyle = at?.[side === "rows" ? 0 : 1] === i ? full : isOther ? mark : ink;
    context.font = `${isOther ? "bold " : ""}${font}px system-ui, sans-serif`;
  };
  context.textBaseline = "middle";
  const bottom = top + queries.length * cell,
    right = left + keys.length * cell;
  queries.forEach((name, q) => {
    nameStyle("rows", q);
    context.textAlign = "right";
    if (cell >= 8 || at?.[0] === q) writeName(context, name, left - 4, top + (q + 0.5) * cell, left - 6);
  });
  keys.forEach((name, k) => {
    context.save();
    context.translate(left + (k + 0.5) * cell, top - 4);
    context.rotate(-Math.PI / 2);
    context.textAlign = "left";
    nameStyle("columns", k);
    if (cell >= 8 || at?.[1] === k) writeName(context, name, 0, 0, top - 6);
    context.restore();
  });
  context.fillStyle = full;
  view.shares.forEach((row, q) =>
    row.forEach((share, k) => {
      if (share < 0.004) return;
      context.globalAlpha = share;
      context.fillRect(left + k * cell, top + q * cell, cell - (cell > 6 ? 1 : 0), cell - (cell > 6 ? 1 : 0));
    }),
  );
  context.globalAlpha = 1;
  context.strokeStyle = line;
  context.lineWidth = 1;
  context.strokeRect(left - 0.5, top - 0.5, right - left + 1, bottom - top + 1);
  if (form.windows) {
    context.strokeStyle = faint;
    form.windows.forEach(([first, last], q) => {
      if (last >= first)
        context.strokeRect(left + first * cell, top + q * cell + 0.5, (last - first + 1) * cell - 1, cell - 1);
    });
  }
  if (beside) {
    context.strokeStyle = mark;
    context.lineWidth = 2;
    weights.forEach((row, q) =>
      row.forEach((_, k) => {
        if (!differs(view, q, k)) return;
        context.setLineDash(gain(view, q, k) < 0 ? [3, 2] : []);
        context.strokeRect(left + k * cell + 0.5, top + q * cell + 0.5, cell - 2, cell - 2);
      }),
    );
    context.setLineDash([]);
  }
  if (form.isHard) {
    context.strokeStyle = context.fillStyle = mark;
    context.lineWidth = 1.5;
    context.beginPath();
    form.places.forEach((k, q) => {
      if (k < 0) return;
      const [x, y] = [left + (k + 0.5) * cell, top + (q + 0.5) * cell];
      if (form.isMonotonic) {
        context.lineTo(x, top + q * cell); // down, then to the right; the first one only moves
        context.lineTo(x, y);
      }
      context.fillRect(x - 2, y - 2, 4, 4);
    });
    context.stroke();
  }
  if (coverage) {
    const [query] = at ?? [null],
      all = keys.map((_, k) => attended(weights, k)),
      height = (coverage - 6) / Math.max(1, largest(all));
    const bar = (k, value) => context.fillRect(left + k * cell + 1, bottom + 4, cell - 2, height * value);
    context.fillStyle = faint;
    context.textAlign = "right";
    writeName(context, query === null ? "in all" : "before", left - 4, bottom + coverage / 2, left - 6);
    context.globalAlpha = query === null ? 1 : 0.4;
    all.forEach((value, k) => bar(k, value));
    context.globalAlpha = 1;
    context.fillStyle = full;
    if (query !== null) keys.forEach((_, k) => bar(k, attended(weights, k, query)));
  }
}

/** The attention that a key gets from all queries, or from those before one: what a model with coverage has added up. */
const attended = (weights, k, before) => sum(weights.slice(0, before).map(row => row[k]));

function describe(view, [q, k], coverage) {
  const { queries, keys, weights, beside } = view,
    change = gain(view, q, k),
    than = `, ${fixed(Math.abs(change), 3)} ${change < 0 ? "less" : "more"} than in ${beside?.name}`;
  const row = q === null ? weights.map(one => one[k]) : weights[q],
    [name, others] = q === null ? [keys[k], queries] : [queries[q], keys];
  const places = [...row.keys()].filter(i => row[i] >= 0.01).sort((a, b) => row[b] - row[a]),
    best = places.slice(0, 5).map(i => `${isolate(others[i])} ${fixed(row[i])}`);
  const weight = q === null || k === null ? "" : `${fixed(weights[q][k], 3)}${Number.isNaN(change) ? "" : than}`,
    cell = weight && `${isolate(queries[q])} → ${isolate(keys[k])}: ${weight}. `;
  const verb = q === null ? `is attended to (${fixed(sum(row))} in all) by` : "attends to";
  const before = coverage && cell && `; ${isolate(keys[k])} had ${fixed(attended(weights, k, q))} before`;
  return `${cell}${isolate(name)} ${verb}: ${best.join(", ") || "nothing"}${before || ""}`;
}
