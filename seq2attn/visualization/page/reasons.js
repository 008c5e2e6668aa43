// Three questions about a translation: what mattered for a word, what if the source were another, and whose fault it is.

import { drawWhatIf, marked } from "explorer/comparison.js";
import { isLive, largest } from "explorer/data.js";
import { field, fixed, form, isolate, make, note, numberCell, percent, readable, row, table } from "explorer/dom.js";
import { pathTo } from "explorer/tree.js";

const QUESTIONS = ["attention", "what mattered", "what if", "whose fault"];
const MEASURES = {
  left_out: ["left out", "how much the log-probability falls when the model does not get this source word"],
  gradient: ["gradient × input", "how much it would change, to first order, if the word's vector were scaled to zero"],
  attention: ["attention", "the mean weight of the heads of the top layer; it need not be what the model used"],
};

/** The questions that the page can answer; a page of attention alone has no tree. */
export function questions({ current, second }) {
  if (!current) return [];
  const recorded = {
    "what mattered": current.importance ?? current.attention === null,
    "what if": second,
    "whose fault": current.diagnosis,
  };
  const hasAnswer = name => current.tree && (isLive || recorded[name]);
  return QUESTIONS.filter(name => (name === "attention" ? current.attention !== undefined : hasAnswer(name)));
}

export function drawReasons(section, app) {
  const draw = { "what mattered": drawImportance, "what if": drawWhatIf, "whose fault": drawDiagnosis }[app.reason];
  if (!draw) return false;
  const body = make("div", { className: app.reason === "what if" ? "split" : "" });
  section.replaceChildren(body);
  draw(body, app);
}

const answers = new Map(); // promises, of questions about importance, so that a change of the view does not ask again

async function drawImportance(body, app) {
  const { state, current, hypothesis } = app,
    place = state.word,
    ids = state.node === null ? hypothesis.ids : pathTo(current.tree, state.node).map(node => current.tree.token[node]);
  if (current.attention === null)
    return body.append(note("What mattered is measured for one model, not for an ensemble."));
  if (place === null)
    return body.append(note("Choose a word of the translation, or “why not?” beside a word considered."));
  const key = JSON.stringify([app.question, ids, place, state.other]);
  const best = pathTo(current.tree, current.hypotheses[0].leaf ?? 0).map(node => current.tree.token[node]); // with EOS
  const isBest = [...ids, best.at(-1)].slice(0, place + 1).every((id, i) => id === best[i]);
  const recorded = isBest && state.other === null ? current.importance?.[place] : undefined;
  if (!recorded && !answers.has(key)) {
    if (!isLive) return body.append(note("Not recorded for this word."));
    answers.set(key, app.ask("importance", { target: ids, place, other: state.other }));
  }
  const found = recorded ?? (await answers.get(key));
  if (!found) return answers.delete(key);
  const word = isolate(readable(current.tokens[ids[place]] ?? "</s>")),
    other = state.other === null ? "" : `, not ${isolate(readable(current.tokens[state.other] ?? "?"))}`;
  const times = `${fixed(Math.exp(Math.abs(found.value)), 1)} times ${found.value < 0 ? "less" : "more"} probable`,
    answer = state.other === null ? `Its probability is ${percent(found.value)}.` : `It is ${times}.`;
  body.append(make("p", { textContent: `Why ${word}${other}? ${answer}` }), ...importanceTable(found));
}

function importanceTable(found) {
  const present = Object.keys(MEASURES).filter(name => found[name]),
    words = found.words.map(word => make("span", { textContent: readable(word), title: readable(word), dir: "auto" }));
  const isTop = (name, i) => fixed(found[name][i]) === fixed(Math.max(...found[name])); // as far as the page shows
  const rows = present.map(name => {
    const full = largest(found[name].map(Math.abs)) || 1,
      [label, meaning] = MEASURES[name];
    return row(
      make("th", { scope: "row", textContent: label, title: meaning }),
      ...found[name].map((value, i) => {
        const style = `height: ${(32 * Math.abs(value)) / full}px`,
          bar = make("span", { className: value < 0 ? "bar against" : "bar", style });
        const number = make("span", { className: "number", textContent: fixed(value) }),
          className = `effect${isTop(name, i) ? " top" : ""}`,
          title = `${isolate(readable(found.words[i]))}: ${fixed(value, 3)}`;
        return make("td", { className, title }, bar, number);
      }),
    );
  });
  const differ = !found.words.some((_, i) => present.every(name => isTop(name, i))),
    top = name => isolate(readable(found.words.find((_, i) => isTop(name, i))));
  const note = differ
    ? `They disagree: ${present.map(name => `${MEASURES[name][0]} has ${top(name)}`).join(", ")} as the most important word.`
    : "All measures have the same most important word.";
  const meanings = present.map(name => make("li", { textContent: `${MEASURES[name][0]}: ${MEASURES[name][1]}.` }));
  return [
    make("div", { className: "scroll" }, table(["", ...words], rows, "effects")),
    make("p", { className: differ ? "differ" : "", textContent: note }),
    make("ul", { className: "faint" }, ...meanings),
  ];
}

const VERDICTS = {
  equal: "The translation is the reference.",
  search:
    "The search failed: the model gives the reference a better score than its output. A wider beam may find it, unless a rule of the search forbids it.",
  model: "The model failed: it gives its output a better score than the reference. No search would find the reference.",
};

function drawDiagnosis(body, app) {
  const { current } = app,
    found = current.diagnosis;
  if (isLive) {
    const typed = app.state.reference ?? app.question.reference ?? "",
      text = field("reference translation", typed, value => (app.state.reference = value), { size: 48 });
    const ask = () => app.explore({ reference: text.value.trim() || null });
    body.append(form(ask, { className: "controls" }, text, make("button", { textContent: "compare" })));
  }
  if (!found && app.question.reference)
    body.append(note("Not judged: the search is constrained, draws samples, or has another score."));
  if (!found) return;
  const best = current.hypotheses[0];
  body.append(make("p", { textContent: VERDICTS[found.cause] }));
  const line = (name, tokens, logProbs, score) =>
    row(
      make("th", { scope: "row", textContent: name }),
      numberCell(fixed(score, 3)),
      make("td", { dir: "auto" }, ...marked(tokens, i => i === found.parts_at, logProbs.map(percent))),
    );
  const rows = [
    line("translation", best.target.tokens, found.output_log_probs, found.output_score),
    line("reference", found.reference.tokens, found.log_probs, found.score),
  ];
  body.append(table(["", "score", "tokens"], rows));
  if (found.parts_at !== null) {
    const [here, there] = [found.output_log_probs, found.log_probs].map(values => percent(values[found.parts_at]));
    const place = `They first differ at token ${found.parts_at + 1}`;
    body.append(make("p", { textContent: `${place}: ${here} for the translation's, ${there} for the reference's.` }));
  }
  if (found.unknown) body.append(note(`${found.unknown} tokens of the reference are unknown to the model.`, "differ"));
}
