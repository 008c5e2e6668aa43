// The state of the page, and its views. A view is a function (section, app) that draws the section anew.

import { button, byId, choice, chooser, isolate, make, onSubmit, readable } from "explorer/dom.js";
import { ask, isLive, page, post } from "explorer/data.js";
import { drawAttention } from "explorer/attention.js";
import { drawConsidered } from "explorer/considered.js";
import { drawReasons, questions } from "explorer/reasons.js";
import { drawSentence } from "explorer/sentence.js";
import { drawTable } from "explorer/table.js";
import { drawTree } from "explorer/tree.js";

const views = {
  sentence: drawSentence,
  tree: drawTree,
  considered: drawConsidered,
  attention: drawAttention,
  reasons: drawReasons,
  table: drawTable,
};

/** The selection, which a link restores. */
const initial = {
  sentence: 0, // number of a recorded exploration
  hypothesis: 0, // of the n-best list
  node: null, // of the tree; null: the end of the hypothesis
  word: null, // place of a target token
  other: null, // token that a reason is asked against
  changed: null, // source word that is to be changed
  newWord: "", // typed in its place
  reference: null, // typed, and perhaps not asked yet
  kind: "",
  layer: "",
  head: "",
  scale: page.scale ?? "max",
  words: false,
  tab: page.table ? "table" : "sentence",
  reason: "attention", // the question of the panel
  order: "",
  filter: "",
  shown: 200, // lines of the table
  x: "",
  y: "",
};

const noQuestion = { run: 0, text: "", prefix: [], masked: [], beam: null, reference: null };

const recorded = page.explorations ?? [];

/** The selection in an exploration that is new on the page. */
const UNSELECTED = { tab: "sentence", hypothesis: 0, node: null, word: null, other: null, changed: null };

const app = {
  state: { ...initial },
  answer: null, // of the server
  secondAnswer: null, // to another source, or by another run
  secondChanges: null, // of the question, which led to it
  asked: { first: 0, second: 0 }, // numbers of questions
  question: noQuestion,

  /** The exploration that is shown. */
  get current() {
    return isLive ? app.answer : (recorded[app.state.sentence] ?? recorded[0] ?? null);
  },

  /** One to compare with: the second answer, or the recorded one before or after it of the same sentence. */
  get second() {
    if (isLive) return app.secondAnswer;
    const place = recorded.indexOf(app.current);
    const isOther = one => one && (page.compared || one.text === app.current.text);
    return [recorded[place - 1], recorded[place + 1]].find(isOther) ?? null;
  },

  get hypothesis() {
    return app.current.hypotheses[app.state.hypothesis] ?? app.current.hypotheses[0];
  },

  /** The question that the panel answers: the selected one, if it can. */
  get reason() {
    const names = questions(app);
    return names.includes(app.state.reason) ? app.state.reason : names[0];
  },

  /** Change the selection, and draw all views. */
  set(changes) {
    say(""); // of what was done before
    Object.assign(app.state, changes);
    render();
    remember();
  },

  /** Ask the server about another question, and show the answer, `second` beside the present one; true if it is shown. */
  async explore(changes, { second = false } = {}) {
    const before = app.question,
      question = { ...before, ...changes };
    if (!isLive) return say("This page is a recording: start `seq2attn explore` to ask something else.");
    const kind = second ? "second" : "first",
      number = ++app.asked[kind];
    return waiting(async () => {
      const answer = await ask("explore", question);
      if (number < app.asked[kind]) return false; // a later one was asked meanwhile
      if (second && app.question !== before) return false; // it is beside another translation
      if (second) Object.assign(app, { secondAnswer: answer, secondChanges: changes });
      else {
        const keys = Object.keys(changes).join();
        if (keys !== "reference") app.secondAnswer = app.secondChanges = null; // the search is another
        if (keys && keys !== "reference") Object.assign(app.state, UNSELECTED);
        if (question.text !== before.text) app.state.reference = null; // of the sentence before
        Object.assign(app, { question, answer });
      }
      render();
      remember();
      return true;
    });
  },

  /** Show a recorded exploration. */
  open: sentence => app.set({ ...UNSELECTED, sentence }),

  /** An answer of the server, or undefined after a message. */
  ask: (kind, body) => waiting(() => ask(kind, { ...app.question, ...body })),

  /** Show a message, and all views in the room that it leaves. */
  say(text) {
    say(text);
    render();
  },
};

const say = text => (byId("message").textContent = text);

/** The notes on what is shown, where there is no other message. */
const showNotes = () => (byId("message").textContent ||= (app.current?.notes ?? []).join(" "));

let numWaiting = 0;

async function waiting(work) {
  numWaiting += 1;
  document.body.ariaBusy = "true";
  say("");
  try {
    return await work();
  } catch (error) {
    app.say(error.message);
  } finally {
    numWaiting -= 1;
    document.body.ariaBusy = String(numWaiting > 0);
    showNotes();
  }
}

/** A choice, if there are two or more. */
const offer = (id, names, ...rest) =>
  byId(id).replaceChildren(...(names.length > 1 ? [choice(id, names, ...rest)] : []));

function drawViews() {
  const { current, state } = app,
    isTable = Boolean(page.table) && state.tab === "table";
  if (current?.tree && !(state.node in current.tree.step)) state.node = null; // of a link to another search
  showRuns();
  showRecorded();
  showQuestion();
  showNotes();
  const tabs = [["sentence"], ...(page.table ? [["table", page.table.name]] : [])],
    reasons = questions(app).map(name => [name]);
  offer("tabs", tabs, state.tab, tab => app.set({ tab }));
  byId("panel").hidden = isTable || !current;
  offer("questions", reasons, app.reason, reason => app.set({ reason }));
  const ofSentence = ["sentence", "tree", "considered", app.reason === "attention" ? "attention" : "reasons"],
    shown = isTable ? ["table"] : current ? ofSentence : [];
  for (const id of Object.keys(views)) byId(id).hidden = !shown.includes(id); // before any is drawn in the room it has
  for (const id of shown) byId(id).hidden = views[id](byId(id), app) === false;
  byId("save").disabled = !current;
  if (current) document.title = `${current.run ? `${current.run}: ` : ""}${sentenceOf(current)}`;
}

/** The question in the form, but for fields with text that is typed and not asked yet. */
function showQuestion() {
  const beam = app.question.beam ?? app.current?.search?.size ?? "";
  for (const [id, value] of Object.entries({ text: app.question.text, beam })) {
    const field = byId(id);
    if (field.value === field.defaultValue) field.value = value;
    field.defaultValue = value;
  }
  byId("beam").placeholder = beam; // of an empty field
}

const FOCUSABLE = "button, select, input, canvas[tabindex]";

/** Draw all views, with the focus where it was: a view that is drawn anew has other elements. */
function render() {
  const section = document.activeElement?.closest("section, nav, #runs, #choice");
  const place = section ? [...section.querySelectorAll(FOCUSABLE)].indexOf(document.activeElement) : -1;
  drawViews();
  const same = section?.querySelectorAll(FOCUSABLE)[place],
    nav = section?.parentElement.querySelector(":scope > nav") ?? byId("tabs");
  const pressed = section?.hidden && nav.querySelector("[aria-pressed=true]"),
    next = pressed || (same?.hidden ? section.querySelector(FOCUSABLE) : same);
  next?.focus({ preventScroll: true });
}

// The fragment of the address holds the question and the selection, so that a link restores the page.

function remember() {
  if (location.protocol === "about:") return; // a frame of a notebook has no address
  const { sentence, ...state } = app.state,
    { text, ...question } = app.question;
  const changed = Object.entries(state).filter(([key, value]) => value !== initial[key]);
  const asked = isLive ? { text, question: JSON.stringify([question, app.secondChanges]) } : { sentence };
  const entries = { ...asked, state: JSON.stringify(Object.fromEntries(changed)) };
  history.replaceState(null, "", `#${new URLSearchParams(entries)}`);
}

/** Take what a link says; false after a message, if it is cut. */
function recall() {
  const fragment = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  const { sentence = 0, text = page.text ?? "", state = "{}", question = "[{}, null]" } = fragment;
  try {
    const [[asked, second], selected] = [JSON.parse(question), JSON.parse(state)];
    app.state = { ...initial, ...selected, sentence: Number(sentence) };
    Object.assign(app, { question: { ...noQuestion, ...asked, text }, secondChanges: second });
    app.answer = app.secondAnswer = null; // to another question, which this one may not replace if it fails
    return true;
  } catch (error) {
    say(`The link is cut: ${error.message}`);
    return false;
  }
}

/** Draw what a link says, and ask its question, and what it was compared with. */
async function follow() {
  const second = app.secondChanges;
  render();
  if (!isLive || !app.question.text) return;
  if ((await app.explore({})) && second) await app.explore(second, { second: true });
}

/** The question in the form. */
function formQuestion() {
  const text = byId("text").value,
    beam = Number(byId("beam").value) || null,
    isSame = beam === app.current?.search.size;
  const reference = text === app.question.text ? app.question.reference : null;
  return { text, reference, prefix: [], masked: [], beam: isSame ? app.question.beam : beam };
}

function showRuns() {
  const names = page.runs ?? [];
  if (names.length < 2) return byId("runs").replaceChildren(names[0] ?? app.current?.run ?? "");
  const compare = () => {
    const run = (app.question.run + 1) % names.length,
      changes = { run, prefix: [], masked: [] }; // numbers of the tokens of this run
    const show = isShown => isShown && app.set({ reason: "what if", tab: "sentence" });
    if (app.current) app.explore(changes, { second: true }).then(show);
  };
  const menus = chooser("run", names, app.question.run, true, run => app.explore({ ...formQuestion(), run }));
  byId("runs").replaceChildren(...menus, " ", button("compare", compare));
}

/** The sentence; with masked words, as the model reads it. */
const sentenceOf = ({ text, masked, source }) =>
  masked?.length ? source.words.slice(0, -1).map(readable).join(" ") : text;

function showRecorded() {
  byId("choice").hidden = recorded.length < 2;
  if (recorded.length < 2) return;
  const isSame = recorded.every(one => sentenceOf(one) === sentenceOf(recorded[0])),
    names = recorded.map((one, i) =>
      isSame ? one.run || i + 1 : `${isolate(one.run || `${i + 1}`)}: ${isolate(sentenceOf(one))}`,
    );
  const menus = chooser(isSame ? "run" : "sentence", names, recorded.indexOf(app.current), isSame, app.open);
  byId("choice").replaceChildren(...menus);
}

async function save() {
  const questions = [app.question, ...(app.second ? [{ ...app.question, ...app.secondChanges }] : [])];
  const response = await post("page", { questions });
  const link = make("a", { href: URL.createObjectURL(await response.blob()), download: "explorer.html" });
  link.click();
  URL.revokeObjectURL(link.href);
}

function start() {
  byId("question").hidden = !isLive;
  byId("save").hidden = !isLive || page.live === "notebook"; // which keeps the page itself
  byId("save").addEventListener("click", () => waiting(save));
  byId("link").hidden = location.protocol === "about:";
  byId("link").addEventListener("click", () => {
    (navigator.clipboard?.writeText(location.href) ?? Promise.reject()).then(
      () => app.say("The link is copied."),
      () => app.say(location.href),
    );
  });
  onSubmit(byId("question"), () => app.explore(formQuestion()));
  recall() ? follow() : render();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", render);
  addEventListener("resize", render);
  addEventListener("hashchange", () => recall() && follow());
}

start();
