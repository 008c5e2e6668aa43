// Source and translation with their alignment, the n-best list, and the forced beginning of the translation.

import { headNames, matrix } from "explorer/data.js";
import { button, fixed, isolate, make, numberCell, percent, readable, row, table } from "explorer/dom.js";
import { wordOf } from "explorer/tree.js";

/** For each target token its weights on the source tokens: of the head for alignment, else the mean of the top layer. */
function alignment({ attention }, hypothesis) {
  if (hypothesis.alignment) return hypothesis.alignment.map(row => row.map(share => share / 100));
  const map = attention?.alignment ?? attention?.cross; // of the best
  return map ? matrix(map, map.layers.length - 1, headNames(map).length - 1) : null;
}

export function drawSentence(section, app) {
  const { current, hypothesis } = app,
    weights = alignment(current, hypothesis),
    source = tokenLine("source", current.source),
    target = tokenLine("translation", hypothesis.target, hypothesis.token_log_probs);
  const mark = (side, place) => {
    const row = place === null || !weights ? null : side === "target" ? weights[place] : weights.map(one => one[place]);
    for (const line of [source, target])
      line.querySelectorAll("button").forEach((button, i) => {
        const isHere = line === { source, target }[side],
          share = isHere ? 0 : (row?.[i] ?? 0);
        button.style.setProperty("--share", (100 * Math.min(1, share)).toFixed(0));
        button.classList.toggle("here", isHere && i === place);
      });
  };
  for (const [side, line] of Object.entries({ source, target })) {
    line.querySelectorAll("button").forEach((button, place) => {
      for (const type of ["mouseenter", "focus"]) button.addEventListener(type, () => mark(side, place));
      for (const type of ["mouseleave", "blur"]) button.addEventListener(type, () => mark("target", wordOf(app)));
      button.addEventListener("click", () =>
        side === "target"
          ? app.set({ word: place, node: null, other: null, reason: "what mattered" })
          : app.set({ reason: "what if", changed: current.source.word_ids[place] }),
      );
    });
  }
  const titled = (textContent, line) => make("div", { className: "line" }, make("h2", { textContent }), line);
  const lines = make("div", {}, titled("source", source), titled("translation", target), ...forced(app));
  section.replaceChildren(lines, nBestList(app));
  mark("target", wordOf(app));
}

/** The tokens of a side as buttons; those that are not text are marked. */
function tokenLine(name, { tokens }, logProbs = []) {
  const words = tokens.map((token, place) => {
    const textContent = readable(token),
      kind = TAG.test(token) ? { className: "tag", dir: "ltr" } : /^[▁ ]/u.test(token) ? { className: "starts" } : {},
      title = textContent + (logProbs[place] === undefined ? "" : `: ${percent(logProbs[place])}`);
    return make("button", { type: "button", textContent, title, ...kind });
  });
  return make("p", { className: "tokens", ariaLabel: name, dir: "auto" }, ...words);
}

/** Tags and special tokens such as </s>, __eng__ or <2fr>; not the byte <0xE2>. */
const TAG = /^(<(?!0x).+>|__.+__|>>.+<<)$/u;

/** The forced beginning of the translation, and buttons to take it back. */
function forced(app) {
  const { prefix, tokens } = app.current;
  if (!prefix?.length) return [];
  const title = "Search without this token and those after it.";
  const buttons = prefix.map((id, place) => {
    const undo = () => app.explore({ prefix: prefix.slice(0, place) });
    return button(`${readable(tokens[id] ?? "?")} ×`, undo, { title });
  });
  return [make("p", { className: "forced" }, "forced: ", ...buttons)];
}

function nBestList(app) {
  const { hypotheses } = app.current;
  if (hypotheses[0].score === undefined) return make("div");
  const title = "Length penalty: the log-probability is divided by it.";
  const { description, score } = app.current.search;
  const heading = make("h2", { textContent: `n-best list of ${description}` }),
    names = [heading, "log-prob.", make("span", { textContent: "penalty", title }), score];
  const rows = hypotheses.map((one, rank) => {
    const select = () => app.set({ hypothesis: rank, node: null, word: null }),
      properties = { dir: "auto", title: one.text, ariaPressed: rank === app.state.hypothesis };
    const numbers = ["log_prob", "penalty", "score"].map(key => numberCell(fixed(one[key], 3)));
    return row(button(one.text || "(empty)", select, properties), ...numbers);
  });
  return make("div", { className: "list" }, table(names, rows));
}
