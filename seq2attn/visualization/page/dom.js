// Elements, numbers and colors that all views share. Text is never markup: it only becomes textContent or an attribute.

export const byId = id => document.getElementById(id);

/** An element with properties and children. */
export function make(name, properties = {}, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

/** A button with a text or an element. */
export function button(content, onClick, properties = {}) {
  const element = make("button", { type: "button", ...properties }, content);
  element.addEventListener("click", onClick);
  return element;
}

/** A table with the names of its columns, as text or elements. */
export function table(names, rows, className = "") {
  const head = make("tr", {}, ...names.map(name => make("th", { scope: "col" }, name)));
  return make("table", { className }, make("thead", {}, head), make("tbody", {}, ...rows));
}

/** A row of a table, from its cells or their contents. */
export const row = (...cells) =>
  make("tr", {}, ...cells.map(cell => (/^T[DH]$/.test(cell.tagName) ? cell : make("td", {}, cell))));

export const numberCell = text => make("td", { className: "number", textContent: text });

const escape = text => `‹${text.codePointAt(0).toString(16)}›`;

/** A piece of text that keeps its own direction within other text; what would change that of the rest is escaped. */
export const isolate = text => `\u2068${text.replace(/\p{Bidi_Control}/gu, escape)}\u2069`;

/** A token as people read it: spaces are visible, and so are control and bidirectional characters. */
export const readable = token => token.replace(/^[▁ ](?=.)/u, "").replace(/[\p{Cc}\p{Cf}]/gu, escape) || "▁";

export const note = (textContent, className = "faint") => make("p", { className, textContent });

export const percent = logProb => {
  const share = 100 * Math.exp(logProb);
  return `${share >= 9.95 ? share.toFixed(0) : share >= 0.095 ? share.toFixed(1) : share.toPrecision(1)} %`;
};

export const fixed = (value, digits = 2) => value?.toFixed(digits).replace(/^-(?=[0.]*$)/, "") ?? "–"; // no "-0.00"

/** A color of the style sheet. */
export const color = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/** Write a name on a canvas in a width: with narrow letters, and cut with an ellipsis, if it is longer. */
export function writeName(context, name, x, y, width) {
  const letters = [...name.slice(0, 99)],
    shown = () => (letters.length < [...name].length ? `${letters.join("")}…` : name);
  while (letters.length > 1 && context.measureText(shown()).width > 1.3 * width) letters.pop();
  context.fillText(isolate(shown()), x, y, width);
}

const MAX_SIDE = 32_767, // pixels, in Firefox
  MAX_AREA = 2 ** 24; // pixels, in Safari on phones

/** A canvas of CSS pixels that is sharp on any screen, and its context. */
export function canvasOf(canvas, width, height) {
  const most = Math.min(MAX_SIDE / Math.max(width, height), Math.sqrt(MAX_AREA / (width * height))),
    ratio = Math.min(window.devicePixelRatio || 1, most);
  Object.assign(canvas, { width: Math.floor(width * ratio), height: Math.floor(height * ratio) });
  Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

/** Scroll a place of a canvas to the middle of its box. */
export const center = (box, x, y) => box.scrollTo(x - box.clientWidth / 2, y - box.clientHeight / 2);

/** A group of buttons of which one is pressed. */
export function choice(label, names, selected, onSelect) {
  const buttons = names.map(([value, name = value]) =>
    button(name, () => onSelect(value), { ariaPressed: value === selected }),
  );
  return make("span", { className: "choice", role: "group", ariaLabel: label }, ...buttons);
}

/** A menu of names with a label; the selected one is a number. */
export function menu(label, names, selected, onSelect) {
  const select = make("select", {}, ...names.map((name, i) => new Option(name, i, false, i === selected)));
  select.addEventListener("change", () => onSelect(select.selectedIndex));
  return make("label", {}, `${label} `, select);
}

/** A menu and, for steps of one thing such as checkpoints, a slider. */
export function chooser(label, names, selected, isSliding, onSelect) {
  const properties = { type: "range", max: names.length - 1, value: selected };
  const slider = make("input", { ...properties, ariaLabel: label, ariaValueText: names[selected] });
  slider.addEventListener("change", () => onSelect(Number(slider.value)));
  const select = menu(label, names, selected, onSelect);
  return isSliding && names.length > 2 ? [select, slider] : [select];
}

/** A field for text that is kept as it is typed, as the field may be drawn anew. */
export function field(label, value, keep, properties = {}) {
  const input = make("input", { ariaLabel: label, placeholder: label, dir: "auto", value, ...properties });
  input.addEventListener("input", () => keep(input.value));
  return input;
}

export function onSubmit(form, act) {
  form.addEventListener("submit", event => {
    event.preventDefault();
    act();
  });
  return form;
}

export const form = (act, ...content) => onSubmit(make("form", ...content), act);
