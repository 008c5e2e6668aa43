// All lines of a test set: a table and a scatter plot by their measures. A click opens a line in the other views.

import { isLive, page } from "explorer/data.js";
import { button, canvasOf, color, field, fixed, form, make, menu, numberCell, row, table } from "explorer/dom.js";

const MEASURES = {
  chrf: "chrF",
  log_prob: "log-prob. per token",
  length_ratio: "length ratio",
  spread: "spread of attention",
  unattended: "unattended tokens",
  repeated: "repeated words",
};
const WIDTH = 420,
  HEIGHT = 260,
  PAD = 34;

export function drawTable(section, app) {
  const { rows } = page.table,
    { state } = app,
    present = Object.keys(MEASURES).filter(name => rows.some(row => row[name] !== null));
  const order = state.order.replace("-", "") || present[0],
    isDown = state.order.startsWith("-");
  const axes = [state.x || present[0], state.y || (present[1] ?? present[0])];
  const matches = rows.filter(filterOf(state.filter));
  const sign = isDown ? -1 : 1,
    last = isDown ? -Infinity : Infinity; // a line without the measure comes last
  const sorted = [...matches].sort((a, b) => ((a[order] ?? last) - (b[order] ?? last)) * sign || 0);
  const open = row => {
    if (isLive) app.explore({ text: row.source, reference: row.reference, prefix: [], masked: [] });
    else if (row.sentence === undefined) app.say("This line is not recorded in the page.");
    else app.open(row.sentence);
  };
  const title = `Words, and measures below or above a number: ${present.join(", ")}.`,
    keep = text => (state.filter = text); // drawn later: not at `change`, between two halves of a click
  const filter = field("words and measures of lines", state.filter, keep, { placeholder: "words, chrf<40", title });
  const filterForm = form(() => app.set({}), {}, filter, " ", make("button", { textContent: "filter" }));
  const names = present.map(name => MEASURES[name]),
    axis = (name, value) => menu(name, names, present.indexOf(value), i => app.set({ [name]: present[i] }));
  const heads = present.map(name => {
    const text = `${MEASURES[name]}${name === order ? (isDown ? " ↓" : " ↑") : ""}`;
    return button(text, () => app.set({ order: name === order && !isDown ? `-${name}` : name }));
  });
  const body = sorted.slice(0, state.shown).map(one =>
    row(
      ...present.map(name => numberCell(fixed(one[name], name === "unattended" || name === "repeated" ? 0 : 2))),
      button(one.source || "(empty)", () => open(one), { dir: "auto" }),
      make("td", { textContent: one.text, dir: "auto" }),
      make("td", { textContent: one.reference ?? "", dir: "auto" }),
    ),
  );
  const isCut = matches.length > state.shown,
    more = button("more", () => app.set({ shown: state.shown + 200 }), { hidden: !isCut });
  const count = `${matches.length} of ${rows.length} lines${isCut ? `, the first ${state.shown} shown` : ""} `;
  section.replaceChildren(
    make("div", { className: "controls" }, filterForm, axis("x", axes[0]), axis("y", axes[1]), count, more),
    ...scatter(matches, axes, open, Math.min(WIDTH, section.clientWidth - PAD)),
    make("div", { className: "scroll" }, table([...heads, "source", "translation", "reference"], body, "lines")),
  );
}

/** Whether a row has all words, and measures such as `chrf<40` or `log_prob>=-1`. */
function filterOf(text) {
  const [words, limits] = [[], []],
    spaces = new RegExp(`(${Object.keys(MEASURES).join("|")})\\s*([<>]=?)\\s*`, "gu");
  for (const term of text.toLowerCase().replace(spaces, "$1$2").split(/\s+/u)) {
    const [, name, sign, number] = term.match(/^([a-z_]+)([<>]=?)(-?\d*\.?\d+)$/u) ?? [];
    Object.hasOwn(MEASURES, name) ? limits.push([name, sign, Number(number)]) : words.push(term);
  }
  const holds = (value, sign, limit) =>
    value !== null && ((sign[0] === "<" ? value < limit : value > limit) || (sign[1] && value === limit));
  return row => {
    const line = `${row.source} ${row.text} ${row.reference ?? ""}`.toLowerCase();
    return words.every(word => line.includes(word)) && limits.every(([name, ...rest]) => holds(row[name], ...rest));
  };
}

/** A point for each line that has both measures, and the source of the line that is pointed at. */
function scatter(rows, [x, y], open, width) {
  const points = rows.filter(row => row[x] !== null && row[y] !== null).sort((a, b) => a[x] - b[x]),
    name = `${MEASURES[y]} by ${MEASURES[x]} of ${points.length} lines`,
    ariaLabel = `${name}; arrow keys move between points, Enter opens the line`,
    canvas = make("canvas", { tabIndex: 0, role: "application", ariaLabel }),
    context = canvasOf(canvas, width, HEIGHT),
    pointer = make("span", { className: "pointer", hidden: true }),
    status = make("p", { className: "status", role: "status", dir: "auto" });
  const range = name => {
    const first = points[0]?.[name] ?? 0; // `Math.min(...values)` fails for 130,000 lines
    return points.reduce(([low, high], row) => [Math.min(low, row[name]), Math.max(high, row[name])], [first, first]);
  };
  const [[x0, x1], [y0, y1]] = [range(x), range(y)];
  const place = row => [
    PAD + ((row[x] - x0) / (x1 - x0 || 1)) * (width - 2 * PAD),
    HEIGHT - PAD - ((row[y] - y0) / (y1 - y0 || 1)) * (HEIGHT - 2 * PAD),
  ];
  context.strokeStyle = color("line");
  context.strokeRect(PAD, PAD, width - 2 * PAD, HEIGHT - 2 * PAD);
  context.fillStyle = color("faint");
  context.font = "12px system-ui, sans-serif";
  context.fillText(`${MEASURES[x]}: ${fixed(x0)} to ${fixed(x1)}`, PAD, HEIGHT - 12);
  context.fillText(`${MEASURES[y]}: ${fixed(y0)} to ${fixed(y1)}`, PAD, 20);
  context.fillStyle = color("full");
  context.globalAlpha = 0.6;
  for (const row of points) {
    context.beginPath();
    context.arc(...place(row), 3, 0, 2 * Math.PI);
    context.fill();
  }
  const nearest = ({ offsetX, offsetY }) => {
    const distances = points.map(place).map(([left, top]) => Math.hypot(left - offsetX, top - offsetY));
    return distances.indexOf(distances.reduce((a, b) => Math.min(a, b), Infinity));
  };
  let at = -1;
  const choose = () => at >= 0 && open(points[at]);
  const move = to => {
    if (!points.length) return;
    at = Math.max(0, Math.min(points.length - 1, to));
    const [left, top] = place(points[at]);
    Object.assign(pointer.style, { left: `${left}px`, top: `${top}px` });
    pointer.hidden = false;
    status.textContent = points[at].source;
  };
  canvas.addEventListener("mousemove", event => move(nearest(event)));
  canvas.addEventListener("click", choose);
  canvas.addEventListener("keydown", event => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === "Enter") choose();
    if (!step) return;
    event.preventDefault();
    move(at + step);
  });
  return [make("div", { className: "scatter" }, canvas, pointer), status];
}
