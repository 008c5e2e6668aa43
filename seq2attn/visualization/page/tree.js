// The beam as a tree: all candidates of each step from left to right, the most probable hypotheses at the top.

import { largest } from "explorer/data.js";
import { canvasOf, center, color, fixed, isolate, make, percent, readable, writeName } from "explorer/dom.js";

/** Why a rule forbids a token. */
export const RULES = {
  prefix: "not the forced word",
  special: "a special token",
  min_length: "ends too early",
  max_length: "is too long",
  ngram: "repeats words",
  terms: "lacks a glossary term",
};
/** The mark of each fate, and its name in the legend. */
const FATES = {
  live: ["●", "continued"],
  beam: ["×", "out of the beam"],
  kept: ["■", "finished"],
  worse: ["□", "finished, but worse"],
  forbidden: ["⊘", "forbidden"],
  stopped: ["◌", "search ended"],
};
const COLUMN = 92,
  MIN_COLUMN = 46, // where all steps are in view then
  GAP = 12, // between columns, for the lines
  ROW = 14,
  MARK = 11,
  MARGIN = 6;

/** The nodes from the first token to a node. */
export function pathTo(tree, node) {
  const path = [];
  for (; node > 0; node = tree.parent[node]) path.unshift(node);
  return path;
}

/** The place of the selected word in the hypothesis that is shown; null for a candidate that is not part of it. */
export function wordOf({ state: { node, word }, current, hypothesis }) {
  return node === null || pathTo(current.tree, hypothesis.leaf ?? 0).includes(node) ? word : null;
}

/** The text of these nodes. */
export const textTo = ({ tree, tokens }, node, first = 0) =>
  pathTo(tree, node)
    .slice(first)
    .map(one => readable(tokens[tree.token[one]]))
    .join(" ");

export function drawTree(section, app) {
  const { tree } = app.current;
  if (!tree) return false;
  const ariaLabel = "beam search as a tree; arrow keys move between candidates, Enter selects the step",
    canvas = make("canvas", { tabIndex: 0, role: "application", ariaLabel }),
    sheet = make("div", {}, canvas), // as large as the tree; the canvas stays in view
    scroll = make("div", { className: "scroll" }, sheet),
    status = make("p", { className: "status", role: "status" });
  const path = pathTo(tree, app.hypothesis.leaf ?? 0);
  let active = null;
  const redraw = () => paint(canvas, scroll, app, places, active);
  const move = node => {
    if (node === active) return;
    active = node;
    redraw();
    status.textContent = describe(app.current, active);
  };
  scroll.addEventListener("scroll", redraw);
  const nodeAt = event => places.at(event.offsetX + scroll.scrollLeft, event.offsetY + scroll.scrollTop);
  canvas.addEventListener("mousemove", event => move(nodeAt(event) ?? active));
  const select = node => app.set({ node: node || null, word: node ? tree.step[node] - 1 : null, other: null });
  canvas.addEventListener("click", event => nodeAt(event) !== undefined && select(nodeAt(event)));
  canvas.addEventListener("keydown", event => {
    const next = neighbor(tree, places, active, event.key);
    if (event.key !== "Enter" && next === undefined) return;
    event.preventDefault();
    if (next === undefined) return select(active);
    move(next);
    center(scroll, places.x(active), places.y(active));
  });
  const { scrollLeft: left = 0, scrollTop: top = 0 } = section.querySelector(".scroll") ?? {};
  const legend = Object.values(FATES).map(([mark, name]) => `${mark} ${name}  `),
    head = make("h2", { textContent: "beam search" }, make("span", { className: "legend" }, ...legend));
  section.replaceChildren(head, scroll, status);
  const places = layout(tree, scroll.clientWidth);
  Object.assign(sheet.style, { width: `${places.width}px`, height: `${places.height}px` });
  scroll.scrollTo({ left, top });
  move(app.state.node ?? path[app.state.word ?? path.length - 1] ?? 0);
  if (app.state.node === null && app.state.word !== null) center(scroll, places.x(active), places.y(active));
}

/** Columns of the steps, and rows by the log-probability of the hypotheses; columns are narrow if all fit then. */
function layout(tree, room) {
  const bySteps = [];
  tree.step.forEach((step, node) => (bySteps[step] ??= []).push(node));
  const row = [];
  for (const nodes of bySteps)
    nodes.sort((a, b) => tree.total[b] - tree.total[a]).forEach((node, i) => (row[node] = i));
  const share = (room - 2 * MARGIN) / bySteps.length,
    column = share < MIN_COLUMN ? COLUMN : Math.min(COLUMN, share);
  const x = node => MARGIN + tree.step[node] * column,
    y = node => MARGIN + (row[node] + 0.5) * ROW,
    step = left => Math.max(0, Math.floor((left - MARGIN) / column));
  const at = (left, top) => bySteps[step(left)]?.[Math.floor((top - MARGIN) / ROW)];
  const isBetween = (top, bottom) => node => {
    const ends = [node, Math.max(0, tree.parent[node])].map(y); // of the line to it
    return Math.max(...ends) > top - ROW && Math.min(...ends) < bottom + ROW;
  };
  const within = (left, top, right, bottom) =>
    bySteps.slice(step(left), step(right) + 2).flatMap(nodes => nodes.filter(isBetween(top, bottom)));
  const width = bySteps.length * column + 2 * MARGIN,
    height = largest(bySteps.map(nodes => nodes.length)) * ROW + 2 * MARGIN;
  return { row, bySteps, column, x, y, at, within, width, height };
}

/** Draw what is in view in the box that scrolls: the whole may be larger than a canvas can be. */
function paint(canvas, box, { current, hypothesis }, places, active) {
  const { tree, tokens } = current,
    { column, x, y } = places,
    { scrollLeft: left, scrollTop: top } = box,
    [width, height] = [Math.min(places.width, box.clientWidth), Math.min(places.height, box.clientHeight)],
    nodes = places.within(left, top, left + width, top + height),
    context = canvasOf(canvas, width, height),
    [ink, faint, full] = ["ink", "faint", "full"].map(color);
  const best = new Set(pathTo(tree, hypothesis.leaf ?? 0)),
    here = new Set(pathTo(tree, active));
  context.translate(-left, -top);
  context.textBaseline = "middle";
  for (const node of nodes.filter(Boolean).sort((a, b) => best.has(a) - best.has(b))) {
    const parent = tree.parent[node],
      isBest = best.has(node);
    context.beginPath();
    context.strokeStyle = isBest || here.has(node) ? full : faint;
    context.lineWidth = isBest ? 2.5 : here.has(node) ? 1.5 : 0.5;
    const [x0, y0, x1, y1] = [x(parent) + column - GAP, y(parent), x(node), y(node)];
    context.moveTo(x0, y0);
    context.bezierCurveTo(x0 + GAP / 2, y0, x1 - GAP / 2, y1, x1, y1);
    context.stroke();
  }
  for (const node of nodes) {
    const fate = tree.fate[node],
      isBest = best.has(node) || !node,
      [mark] = FATES[fate] ?? FATES.forbidden;
    context.fillStyle = isBest ? full : fate === "live" || fate === "kept" ? ink : faint;
    if (node === active) context.fillRect(x(node), y(node) + ROW / 2 - 2, column - GAP, 1.5);
    const name = node ? readable(tokens[tree.token[node]]) : "start";
    context.font = `${isBest ? "600 " : ""}${column < COLUMN ? 11 : 12}px system-ui, sans-serif`;
    context.fillText(mark, x(node), y(node));
    writeName(context, name, x(node) + MARK, y(node), column - GAP / 2 - MARK);
  }
}

/** The node that an arrow key leads to: within the step, to the parent, or to the best continuation. */
function neighbor(tree, places, node, key) {
  const step = tree.step[node],
    column = places.bySteps[step],
    row = places.row[node];
  return {
    ArrowUp: column[row - 1],
    ArrowDown: column[row + 1],
    ArrowLeft: node > 0 ? tree.parent[node] : undefined,
    ArrowRight: places.bySteps[step + 1]?.find(one => tree.parent[one] === node),
    Home: 0,
  }[key];
}

/** What a candidate is, and why it was dropped. */
function describe(exploration, node) {
  const { tree, tokens } = exploration;
  if (!node) return "The empty translation, before the first word.";
  const by = tree.by[node],
    other = by === null ? "" : `: the last place went to ${isolate(textTo(exploration, by))}`;
  const reasons = {
    live: "continued",
    kept: `finished with the score ${fixed(tree.score[node], 3)}, in the n-best list`,
    worse: `finished with the score ${fixed(tree.score[node], 3)}, worse than the n-best list${other}`,
    beam: `out of the beam${other}`,
    stopped:
      "not continued: the search ended, as this could become no better than the finished ones, or enough were finished",
  };
  const rank = tree.rank[node] ? `, candidate ${tree.rank[node]} of its step` : "";
  const reason = reasons[tree.fate[node]] ?? `forbidden: ${RULES[tree.fate[node]]}`;
  return `${isolate(readable(tokens[tree.token[node]]))}: ${percent(tree.log_prob[node])} by the model; the translation so far has the log-probability ${fixed(tree.total[node])}${rank}; ${reason}.`;
}
