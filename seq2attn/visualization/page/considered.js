// The tokens considered after a hypothesis of the tree: their probability by the model, and under the rules of the search.

import { isLive } from "explorer/data.js";
import { button, isolate, make, numberCell, percent, readable, row, table } from "explorer/dom.js";
import { pathTo, RULES, textTo } from "explorer/tree.js";

const MAX_SHOWN = 4; // tokens before these words

export function drawConsidered(section, app) {
  const { current, state } = app;
  if (!current.tree) return false;
  const parent = parentOf(app),
    path = pathTo(current.tree, parent);
  const end = `${path.length > MAX_SHOWN ? "… " : ""}${textTo(current, parent, -MAX_SHOWN)}`,
    textContent = parent ? `after ${isolate(end)}` : "at the beginning";
  const after = make("p", { className: "faint", title: textTo(current, parent), textContent });
  const title = make("div", { className: "controls" }, make("h2", { textContent: "words considered" }), after);
  const words = current.considered[parent];
  if (!words) {
    const isEnd = !current.tree.parent.includes(parent),
      reason = isEnd ? "The search did not go on from here." : "Not recorded in this page.";
    return section.replaceChildren(title, make("p", { textContent: reason }));
  }
  const chosen = current.tree.token[state.node ?? pathTo(current.tree, app.hypothesis.leaf ?? 0)[path.length]];
  const rows = words.map(([token, model, allowed = model, rule = null]) => {
    const name = current.tokens[token],
      prefix = [...path.map(node => current.tree.token[node]), token];
    const force = () =>
      isLive ? app.explore({ prefix }) : app.say("Words are forced in a live page: seq2attn explore RUN.");
    const word = button(readable(name), force, {
      dir: "auto",
      title: isLive ? `Force ${isolate(readable(name))} here, and search on.` : readable(name),
      ariaPressed: token === chosen,
      disabled: rule === "special",
    });
    const style = `width: ${(100 * Math.exp(model)).toFixed(1)}%`,
      bar = make("td", { className: "bar" }, make("span", { style }));
    const compare = () => app.set({ word: path.length, other: token, reason: "what mattered" });
    const against = button("why not?", compare, {
      className: "why",
      ariaLabel: `why not ${isolate(readable(name))}?`,
      title: "Compare with the chosen word: what mattered?",
      hidden: token === chosen || rule === "special",
    });
    const changed = Math.abs(allowed - model) > 0.001 ? percent(allowed) : "",
      status = RULES[rule] ?? (allowed === null ? "not drawn" : changed);
    return row(word, bar, numberCell(percent(model)), status, isLive ? against : "");
  });
  section.replaceChildren(title, table(["word", "", "model", "search", ""], rows));
}

/** The node whose continuations are shown: before the selected node, or before the selected word of the hypothesis. */
function parentOf({ current: { tree }, state, hypothesis }) {
  if (state.node !== null) return Math.max(0, tree.parent[state.node]);
  return pathTo(tree, hypothesis.leaf ?? 0)[(state.word ?? 0) - 1] ?? 0;
}
