// Two explorations of a sentence side by side: of another source, of another run; with what differs marked.

import { DIFFERENCE, differs, drawMap, select } from "explorer/attention.js";
import { headNames, isLive, largest, shares, sum } from "explorer/data.js";
import { button, field, fixed, isolate, make, menu, note, readable } from "explorer/dom.js";

/** Words of which some are marked, with titles. */
export const marked = (words, isMarked, titles = []) =>
  words.flatMap((word, i) => {
    const properties = { textContent: readable(word), title: titles[i] ?? "" };
    return [make(isMarked(i) ? "mark" : "span", properties), " "];
  });

export function drawWhatIf(body, app) {
  const { current, second } = app;
  const texts = make("div", {}, ...(isLive ? [edits(app, current.source.words.slice(0, -1))] : []));
  body.append(texts);
  if (!second) return texts.append(note("Change, mask or delete a word of the source."));
  const [best, other] = [current.hypotheses[0], second.hypotheses[0]];
  const translations = matches(best.target.words, other.target.words),
    sources = inverse(matches(current.source.words, second.source.words));
  const line = ({ words }, same, ...before) =>
    make("p", { dir: "auto" }, ...before, ...marked(words.slice(0, -1), i => !same.has(i)));
  const run = one => make("b", { dir: "auto", textContent: one.run ? `${one.run} ` : "" });
  texts.append(
    line(second.source, sources),
    line(best.target, translations, run(current)),
    line(other.target, inverse(translations), run(second)),
    note(`log-probability ${fixed(best.log_prob)} and ${fixed(other.log_prob)}`),
    ...second.notes.filter(text => !current.notes.includes(text)).map(text => note(text, "differ")),
  );
  drawMaps(body, app, [current, second]);
}

/** Controls that change one source word. */
function edits(app, words) {
  if (!(app.state.changed in words)) app.state.changed = 0; // none is chosen, or the end of the source
  const source = menu("source word", words.map(readable), app.state.changed, i => (app.state.changed = i));
  const text = field("new word", app.state.newWord, typed => (app.state.newWord = typed), { size: 10 });
  const ask = changes => app.explore({ prefix: [], ...changes }, { second: true });
  const edit = word => {
    const place = app.state.changed,
      isReversed = app.current.source.is_reversed; // the words are looked for as the text has them
    const [inOrder, i] = isReversed ? [words.toReversed(), words.length - 1 - place] : [words, place];
    const changed = replaceWord(app.current.text, inOrder, i, word);
    if (changed !== null) return ask({ text: changed, masked: [] });
    app.say(
      `The sentence has no ${isolate(readable(words[place]))}, as the model reads it: change the sentence itself.`,
    );
  };
  return make(
    "p",
    { className: "controls" },
    source,
    text,
    button("change", () => edit(text.value)),
    button("mask", () => ask({ masked: [app.state.changed] })),
    button("delete", () => edit("")),
  );
}

/** A text with a word replaced, or null without it; words are looked for from left to right, as the model reads them. */
function replaceWord(text, words, place, word) {
  const after = (start, word) => (text.includes(word, start) ? text.indexOf(word, start) + word.length : start),
    [old, ...before] = [words[place], ...words.slice(0, place)].map(word => word.trim()),
    found = text.indexOf(old, before.reduce(after, 0));
  if (found < 0) return null;
  return (text.slice(0, found) + word + text.slice(found + old.length)).replace(/\s+/g, " ").trim();
}

/** The words of a longest common subsequence: their places on the left, each with that on the right. */
function matches(left, right) {
  const length = left.map(() => right.map(() => 0)),
    at = (i, j) => length[i]?.[j] ?? 0;
  for (let i = left.length - 1; i >= 0; i--)
    for (let j = right.length - 1; j >= 0; j--)
      length[i][j] = left[i] === right[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
  const pairs = new Map();
  for (let i = 0, j = 0; i < left.length && j < right.length;) {
    if (left[i] === right[j]) pairs.set(i++, j++);
    else if (at(i + 1, j) >= at(i, j + 1)) i++;
    else j++;
  }
  return pairs;
}

const inverse = pairs => new Map([...pairs].map(([left, right]) => [right, left]));

/** The mean cross-attention of the top layer of two explorations side by side, with what differs marked. */
function drawMaps(body, app, pair) {
  if (!pair.every(one => one.attention?.cross)) return;
  const boxes = pair.map(() => make("div", { className: "scroll" })),
    status = make("p", { className: "status", role: "status" }),
    say = text => (status.textContent = text);
  const views = pair.map(({ attention: { cross: map } }) =>
    select(map, map.layers.length - 1, headNames(map).length - 1, { words: true, scale: app.state.scale }),
  );
  const [left, right] = views,
    [rows, columns] = [matches(left.queries, right.queries), matches(left.keys, right.keys)];
  left.beside = { weights: right.weights, rows, columns, name: "the second map" };
  right.beside = { weights: left.weights, rows: inverse(rows), columns: inverse(columns), name: "the first map" };
  const count = sum(left.weights.map((row, q) => row.filter((_, k) => differs(left, q, k)).length));
  const text = `Weights of the same words that differ by ${DIFFERENCE} or more are outlined (${count}), the smaller one dashed.`;
  const full = largest(views.flatMap(view => view.weights.map(largest))); // one scale for both
  body.firstChild.append(note(text));
  body.append(make("div", { className: "maps" }, ...boxes), status);
  views.forEach((view, side) => {
    view.shares = shares(view.weights, app.state.scale, full);
    drawMap(boxes[side], view, { say });
  });
}
