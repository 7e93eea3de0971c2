// The page: shows a text and what the model thinks of it, takes keys and the mouse, and talks to the server.

import { Text, overlap, same } from "./text.js";

const $ = (id) => document.getElementById(id);
const SAVED = "annotate.text", TAB = "annotate.tab";
const ALTERNATIVES = "qwert";
const KEYS = [
  ["Space", "accept the text"], ["1-9, 0", "label the span or the selection"], ["l", "find a label by its name, or add one"],
  ["q w e r t", "take an alternative"], ["j k", "next and previous span"], ["n", "next doubtful span"],
  ["← →", "move to a token"], [", .", "to the previous or next capital letter outside spans"], ["Shift ← →", "select tokens; move the end of a span"], ["Alt Shift ← →", "move the start of a span"],
  ["d", "no span here"], ["u", "not known"], ["f", "this span is false, whatever is right"],
  ["Shift 1-9", "one of several labels"], ["Backspace", "undo, also earlier texts"], ["x", "skip the text"],
  ["?", "this list"], ["Esc", "back to the text"],
];

const state = { text: null, tokens: [], gaps: [], labels: [], task: "", anchor: null, busy: false, shownAt: 0, spent: 0 };

const tab = sessionStorage.getItem(TAB) ?? newId();
sessionStorage.setItem(TAB, tab);

function newId() {
  return [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "hue") element.style.setProperty("--hue", value);
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

const hue = (label) => {
  const at = state.labels.findIndex((one) => one.name === label);
  return Math.round(((at < 0 ? 0 : at) * 137.508 + 215) % 360);
};
const percent = (p) => (p > 0.995 && p < 1 ? ">99" : p < 0.005 ? "<1" : Math.round(100 * p));

// The server

const wait = (ms) => new Promise((done) => setTimeout(done, ms));

// Send a request until there is an answer; it may come twice, which the server knows by its id.
async function ask(work, body = {}) {
  const options = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ tab, ...body }) };
  for (;;) {
    let answer, content;
    try {
      answer = await fetch(`api/${work}`, options);
      content = await answer.text();
    } catch {
      say("The server does not answer. Your work is kept in this page, which tries again. If the command has ended, give it again.");
      await wait(700);
      continue;
    }
    if (answer.ok) {
      say("");
      return JSON.parse(content);
    }
    say(explained(answer.status, content));
    return { failed: answer.status };
  }
}

// What an answer says that is no success, also one that the program did not make.
function explained(status, content) {
  try {
    return JSON.parse(content).error;
  } catch {
    return `The server has failed (${status}). Nothing was saved; the terminal has the details.`;
  }
}

function say(message) {
  $("banner").textContent = message;
  $("banner").hidden = !message;
}

// Texts

function show(data) {
  state.anchor = null;
  state.spent = 0;
  state.shownAt = performance.now();
  if (!data.key) {
    sessionStorage.removeItem(SAVED);
    state.text = null;
    $("text").replaceChildren();
    $("kind").textContent = "There are no more texts. Add some to the files and load the page again, or end the command.";
    showDock();
    return;
  }
  const saved = JSON.parse(sessionStorage.getItem(SAVED) ?? "null");
  state.text = new Text(data, state.task, saved?.key === data.key ? saved : null);
  const parts = [];
  state.tokens = data.words.map((word, i) => make("b", { "data-i": i }, word));
  state.gaps = data.spaces.map((space) => (space ? make("i", {}, " ") : null));
  state.tokens.forEach((token, i) => parts.push(token, ...(state.gaps[i] ? [state.gaps[i]] : [])));
  state.drawn = new Map();
  $("text").replaceChildren(...parts);
  const kind = data.held_out ? "Drawn at random, without predictions: scores are computed on it." : data.model === null
    ? "The model begins to predict after the first texts." : `Chosen by ${named(data.model)}.`;
  $("kind").textContent = data.again ? "Accepted before; accept it again when it is right." : data.note || kind;
  draw();
  $("text").focus({ preventScroll: true });
  scrollTo({ top: 0 });
  if (saved?.key === data.key && saved.history.length) decodeAnew();
}

// Draw what has changed since the last time: a token's looks are one string.
function draw() {
  const text = state.text, looks = new Map();
  const look = (token, value) => looks.set(token, value);
  for (const ghost of text.ghosts()) paint(ghost, "ghost");
  for (const span of text.spans) paint(span, span[4] ? "span sure" : text.moved.includes(span) ? "span moved" : "span");
  function paint([start, end, label, p], kind) {
    for (let t = start; t < end; t++) {
      look(t, { kind: kind + (t === start ? " first" : "") + (t === end - 1 ? " last" : ""), label, p: p ?? 1, tail: t < end - 1 });
    }
  }
  for (const token of text.pins.unknown) look(token, { kind: "unknown", label: "?", p: 1 });
  for (const [token, labels] of text.pins.choices) look(token, { kind: "unknown last", label: labels.join(" or "), p: 1 });
  for (const [start, end, label] of text.pins.wrong) {
    for (let t = start; t < end; t++) look(t, { kind: "unknown" + (t === end - 1 ? " last" : ""), label: `not ${label}`, p: 1 });
  }
  const [from, to] = text.focus;
  for (let t = from; t < to; t++) {
    const value = looks.get(t) ?? { kind: "", label: "", p: 0 };
    look(t, { ...value, kind: `${value.kind} focus${t === from ? " head" : ""}${t === to - 1 ? " end" : ""}` });
  }
  for (const [token, value] of looks) {
    const key = JSON.stringify(value);
    if (state.drawn.get(token) === key) continue;
    state.drawn.set(token, key);
    const element = state.tokens[token], gap = state.gaps[token];
    element.className = value.kind;
    element.dataset.label = value.kind.includes("last") ? value.label : "";
    for (const one of gap ? [element, gap] : [element]) {
      one.style.setProperty("--hue", hue(value.label));
      one.style.setProperty("--p", value.p.toFixed(3));
    }
    if (gap) gap.className = value.tail ? value.kind.replace(/first|last|head|end/g, "") : "";
  }
  for (const token of state.drawn.keys()) {
    if (looks.has(token)) continue;
    state.drawn.delete(token);
    state.tokens[token].className = state.tokens[token].dataset.label = "";
    if (state.gaps[token]) state.gaps[token].className = "";
  }
  showDock();
  sessionStorage.setItem(SAVED, JSON.stringify(text.saved()));
}

const named = (model) => (model === 0 ? "the pipeline that you have given" : `the model that has learned from ${model} texts`);

const words = (start, end) => {
  const text = state.text.words.slice(start, Math.min(end, start + 12)).join(" ");
  return end - start > 12 ? `${text} …` : text;
};

function showDock() {
  const text = state.text, list = $("alternatives");
  if (!text) {
    $("focus-line").textContent = "";
    list.replaceChildren();
    return;
  }
  const [start, end] = text.focus, span = text.focused();
  const ghost = span ? null : text.ghosts().find((one) => one[0] === start && one[1] === end);
  const what = span ? `${span[2]} ${span[4] ? "by you" : `${percent(span[3])} %`}` : ghost ? `${ghost[2]}? ${percent(ghost[3])} %` : "no span";
  const sources = text.sources(span ?? ghost ?? [start, end, ""]);
  $("focus-line").replaceChildren(make("strong", {}, words(start, end)), ` ${what}${sources}`);
  list.replaceChildren(...text.alternatives().map(([s, e, label, p], i) => make("li", {},
    make("button", { type: "button", hue: hue(label), onclick: () => take(i) },
      make("kbd", {}, ALTERNATIVES[i]), make("span", { class: "chip" }, label), ` ${words(s, e)} `, make("small", {}, `${percent(p)} %${text.sources([s, e, label])}`)))));
}

// Changes

let sent = 0;
async function decodeAnew() {
  const text = state.text, number = ++sent;
  if (text.heldOut) return;
  const answer = await ask("decode", { key: text.key, held_out: text.heldOut, pins: text.pins });
  if (answer.failed || number !== sent || state.text !== text) return;
  text.take(answer);
  draw();
  document.dispatchEvent(new CustomEvent("decoded"));
}

function changed(done) {
  if (!done) return;
  draw();
  decodeAnew();
}

function take(i) {
  const alternative = state.text?.alternatives()[i];
  if (alternative) changed(state.text.label(...alternative.slice(0, 3)));
}

function label(name) {
  const text = state.text;
  if (text && text.focus[1] > text.focus[0]) changed(text.label(text.focus[0], text.focus[1], name));
}

function move(item) {
  if (!item) return;
  state.text.focus = [item[0], item[1], item[2] ?? null];
  draw();
  state.tokens[item[0]]?.scrollIntoView({ block: "nearest" });
}

function step(by) {
  const items = state.text.items(), [start, end] = state.text.focus;
  if (by > 0) move(items.find((item) => item[0] > start || (item[0] === start && item[1] > end)) ?? items[0]);
  else move(items.findLast((item) => item[0] < start) ?? items.at(-1));
}

function moveTo(token) {
  state.anchor = token;
  move([token, token + 1]);
}

// Move to a word that begins with a capital letter and is in no span.
function capital(by) {
  const { words, focus } = state.text;
  let token = by > 0 ? focus[1] : focus[0] - 1;
  while (token in words && (!/^\p{Lu}/u.test(words[token]) || state.text.spanAt(token))) token += by;
  if (token in words) moveTo(token);
}

function arrow(by, shift, start) {
  const text = state.text, [from, to] = text.focus, size = text.words.length;
  if (!shift) {
    moveTo(Math.max(0, Math.min(size - 1, by > 0 ? to : from - 1)));
  } else if (text.focused() && state.anchor === null) {
    changed(start ? text.resize(from + by, to) : text.resize(from, to + by));
  } else {
    const anchor = state.anchor ?? from, edge = from < anchor ? from + by : to - 1 + by;
    if (edge >= 0 && edge < size) move([Math.min(anchor, edge), Math.max(anchor, edge) + 1]);
  }
}

const decided = (text) => {
  const seconds = Math.max(0, state.spent + (document.hidden ? 0 : performance.now() - state.shownAt)) / 1000;
  return { key: text.key, held_out: text.heldOut, id: text.id ??= newId(), seconds: Math.round(seconds * 100) / 100, actions: text.actions, model: text.model, reviewed: true };
};

async function once(work) {
  if (state.busy) return;
  state.busy = true;
  document.body.classList.add("busy");
  try {
    const answer = await work();
    if (answer?.failed === 409) return receive(await ask("next"));
    if (answer && !answer.failed) receive(answer);
  } finally {
    state.busy = false;
    document.body.classList.remove("busy");
  }
}

function receive(answer) {
  showState(answer.state);
  if (answer.text) show(answer.text);
}

const ACTIONS = {
  accept: () => state.text && once(async () => {
    const text = state.text, answer = await ask("accept", { ...decided(text), ...text.accepted() });
    if (!answer.failed) sessionStorage.removeItem(SAVED);
    refresh();
    return answer;
  }),
  skip: () => state.text && once(() => ask("skip", { key: state.text.key, id: newId() })),
  undo: () => {
    if (state.text?.undo()) {
      state.text.take({ spans: state.text.first, offers: state.text.offers, model: state.text.model });
      changed(true);
    } else once(() => ask("undo", { id: newId() }));
  },
  remove: () => changed(state.text?.remove()),
  unknown: () => changed(state.text?.unknown()),
  wrong: () => changed(state.text?.wrong()),
  startOut: () => edge(-1, 0), startIn: () => edge(1, 0), endIn: () => edge(0, -1), endOut: () => edge(0, 1),
};

// Move an edge of the span in focus, or of the selection.
function edge(start, end) {
  const text = state.text;
  if (!text) return;
  const [from, to] = [text.focus[0] + start, text.focus[1] + end];
  if (text.focused()) changed(text.resize(from, to));
  else if (from >= 0 && from < to && to <= text.words.length) move([from, to]);
}

// The project

let refreshing = 0;
function refresh() {
  clearTimeout(refreshing);
  refreshing = setTimeout(async () => showState((await ask("state")).state), 900);
}

function showState(now) {
  if (!now) return;
  state.task = now.task;
  if (JSON.stringify(now.labels) !== JSON.stringify(state.labels)) showLabels(now.labels);
  $("progress").textContent = `${now.texts + now.held_out} texts${now.review ? "" : `, ${now.held_out} of them without predictions`}; ${now.left.toLocaleString("en")} left`;
  document.body.classList.toggle("review", Boolean(now.review));
  $("model").textContent = now.trouble || (now.model === null ? "No model yet" : now.model === 0 ? "The pipeline that you have given" : `Model of ${now.model} texts`);
  $("model").className = now.trouble ? "trouble" : "";
  const range = now.low === null || now.low === undefined ? "" : ` (${(100 * now.low).toFixed(0)} to ${(100 * now.high).toFixed(0)})`;
  $("score").textContent = now.f1 === null || now.f1 === undefined ? "Not known yet" : `F1 ${(100 * now.f1).toFixed(1)}${range}, ${(now.seconds / 60).toFixed(0)} minutes`;
  $("advice").textContent = now.advice;
  showCurve(now.curve.filter((point) => point[1] !== null));
  if (now.model !== null && state.text && state.text.model === null && !state.text.heldOut) decodeAnew();
  if (now.model < now.texts && !now.trouble && !now.review) refresh();  // until the model has learned from all
}

function showLabels(labels) {
  state.labels = labels;
  $("labels").replaceChildren(...labels.map(({ name, count, f1 }, i) => make("li", {},
    make("button", { type: "button", hue: hue(name), title: name, onclick: () => label(name) },
      make("kbd", {}, i < 10 ? String((i + 1) % 10) : ""), make("span", { class: "chip" }, name),
      make("small", {}, `${count}${f1 === null || f1 === undefined ? "" : ` · F1 ${(100 * f1).toFixed(0)}`}`)))));
  state.drawn = new Map();
  if (state.text && state.tokens.length) draw();
}

function svg(tag, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

function showCurve(points) {
  const chart = $("curve");
  chart.classList.toggle("empty", points.length < 2);
  if (points.length < 2) return chart.replaceChildren();
  const most = points.at(-1)[0], x = (n) => 26 + (246 * n) / most, y = (f) => 100 - 92 * f;
  const parts = [0, 0.5, 1].flatMap((f) => [svg("line", { class: "grid", x1: 26, x2: 272, y1: y(f), y2: y(f) }),
    svg("text", { x: 20, y: y(f) + 4, class: "right" }, 100 * f)]);
  const known = points.filter((point) => point[2] !== null);
  const band = [...known.map(([n, , , high]) => [x(n), y(high)]), ...known.map(([n, , low]) => [x(n), y(low)]).reverse()];
  parts.push(svg("polygon", { class: "band", points: band.join(" ") }));
  parts.push(svg("polyline", { class: "line", points: points.map(([n, f]) => [x(n), y(f)]).join(" ") }));
  parts.push(svg("text", { x: 272, y: 116, class: "right" }, `${most} texts`));
  chart.replaceChildren(...parts);
  chart.setAttribute("aria-label", `Learning curve: F1 ${(100 * points.at(-1)[1]).toFixed(1)} after ${most} texts`);
}

// Keys

document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input"), control = event.ctrlKey || event.metaKey;
  if (event.key === "Escape" && typing) return $("text").focus();
  if (typing || control || $("help").open) return;
  if (event.target.matches("button, a, [role=button]") && (event.key === "Enter" || event.key === " ")) return;
  const work = keyWork(event);
  if (!work) return;
  event.preventDefault();
  if (!state.busy) work();
});

function keyWork(event) {
  const key = event.key, digit = /^Digit\d$/.test(event.code) ? (Number(event.code.slice(5)) + 9) % 10 : -1;
  if (key === "?") return () => $("help").showModal();
  if (key === "l") return () => $("find").focus();
  if (key === "Backspace") return ACTIONS.undo;
  const text = state.text;
  if (!text) return null;
  if (digit >= 0 && event.shiftKey && !event.altKey) return () => state.labels[digit] && changed(text.choose(state.labels[digit].name));
  if (digit >= 0 || /^\d$/.test(key)) {
    const at = /^\d$/.test(key) ? (Number(key) + 9) % 10 : digit;
    return () => state.labels[at] && label(state.labels[at].name);
  }
  if (key === "ArrowLeft" || key === "ArrowRight") {
    const back = (key === "ArrowLeft") !== (getComputedStyle($("text")).direction === "rtl");
    return () => arrow(back ? -1 : 1, event.shiftKey, event.altKey);
  }
  if (event.altKey) return null;
  if (ALTERNATIVES.includes(key)) return () => take(ALTERNATIVES.indexOf(key));
  const free = (work) => () => { state.anchor = null; work(); };
  return {
    " ": ACTIONS.accept, x: ACTIONS.skip, u: ACTIONS.unknown, f: ACTIONS.wrong, d: ACTIONS.remove, Delete: ACTIONS.remove,
    j: free(() => step(1)), k: free(() => step(-1)), n: free(() => move(text.doubtful(text.focus))),
    ",": () => capital(-1), ".": () => capital(1),
  }[key];
}

// The mouse: a click is a focus, dragging selects, and dragging from an edge of the span in focus moves the edge.

let drag = null;
const tokenOf = (event) => {
  const element = document.elementFromPoint(event.clientX, event.clientY)?.closest("[data-i]");
  return element ? Number(element.dataset.i) : null;
};

$("text").addEventListener("pointerdown", (event) => {
  const token = tokenOf(event), text = state.text;
  if (token === null || !text || event.button !== 0) return;
  const span = text.focused();
  const edge = span && token === span[1] - 1 ? "end" : span && token === span[0] ? "start" : null;
  drag = { token, edge, span, moved: false };
});
document.addEventListener("pointermove", (event) => {
  const token = drag && tokenOf(event);
  if (token === null || !drag || (token === drag.token && !drag.moved)) return;
  drag.moved = true;
  getSelection()?.removeAllRanges();
  const { edge, span } = drag;
  const focus = edge === "end" ? [span[0], Math.max(token, span[0]) + 1] : edge === "start" ? [Math.min(token, span[1] - 1), span[1]]
    : [Math.min(token, drag.token), Math.max(token, drag.token) + 1];
  drag.focus = focus;
  move(focus);
});
document.addEventListener("pointerup", (event) => {
  if (!drag) return;
  const { token, edge, span, moved, focus } = drag;
  drag = null;
  if (moved && edge) {
    state.text.focus = span;
    return changed(state.text.resize(...focus));
  }
  if (moved) state.anchor = token;
  else {
    const item = state.text.items().find(([s, e]) => s <= token && token < e);
    state.anchor = item ? null : token;
    move(item ?? [token, token + 1]);
  }
});

document.addEventListener("click", (event) => {
  const work = event.target.closest("[data-do]")?.dataset.do;
  if (work) ACTIONS[work]();
});
$("help-open").addEventListener("click", () => $("help").showModal());
$("help-close").addEventListener("click", () => $("help").close());
$("find").addEventListener("input", () => {
  const part = $("find").value.toLowerCase();
  [...$("labels").children].forEach((row, i) => { row.hidden = !state.labels[i].name.toLowerCase().includes(part); });
});
$("add").addEventListener("submit", async (event) => {
  event.preventDefault();
  const name = $("find").value.trim();
  if (!name) return;
  const known = state.labels.find((one) => one.name === name) ?? state.labels.find((one) => one.name.toLowerCase().startsWith(name.toLowerCase()));
  if (!known) {
    const answer = await ask("label", { name });
    if (answer.failed) return;
    showState(answer.state);
  }
  $("find").value = "";
  [...$("labels").children].forEach((row) => { row.hidden = false; });
  $("text").focus();
  label(known ? known.name : name);
});
document.addEventListener("visibilitychange", () => {
  if (document.hidden) state.spent += performance.now() - state.shownAt;
  else state.shownAt = performance.now();
});

$("keys").replaceChildren(...KEYS.flatMap(([key, what]) => [make("dt", {}, make("kbd", {}, key)), make("dd", {}, what)]));
for (const name of ["spacy", "prodigy", "doccano", "label-studio", "columns"]) {
  $("exports").append(make("a", { href: `export/${name}`, download: "" }, name), " ");
}
const last = JSON.parse(sessionStorage.getItem(SAVED) ?? "{}");
receive(await ask("next", { wanted: last.key ?? "", held_out: last.heldOut ?? false }));
