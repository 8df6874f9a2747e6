// The page: filters, keys, buttons, and the decisions file.

const SEARCH_DELAY = 120; // milliseconds of rest before a search, so that typing stays quick on a long list
const FILE_NAME = "decisions.tsv";

const byId = (id) => document.getElementById(id);
const data = takeData();

const isClusters = data.kind === "cluster", isNotes = data.kind === "mention";
const model = isClusters ? new ClusterModel(data) : new PlaceModel(data);
const filters = byId("filters");
const server = data.served ? new Server((problem) => onSaved(problem)) : null;
const concepts = new Map(data.concepts.map((row) => {
  const concept = record(data.fields.concept, row);
  return [`${concept.language} ${concept.concept_id}`, concept];
}));
const conceptOf = (id, language) => (server ? server.concept(id, language) : concepts.get(`${language} ${id}`));
const list = isNotes
  ? new NoteText(byId("list"), model, (number) => choose(number), { turn: (by) => turn(by), finish: () => finish() })
  : new List(byId("list"), model, (number) => choose(number));
const card = new Card(byId("card"), model, {
  rename: (term) => change((group) => model.rename(group, term)),
  concept: (concept) => change((group) => model.setConcept(group, concept)),
  // the card is not redrawn: a click that leaves the field must still hit its target
  parent: (parent) => change((group) => model.setParent(group, parent), false),
  merge: (number) => merge(number),
  show: (number) => reveal(number),
  ticks: () => drawActions(),
}, conceptOf);
const mergeDialog = new Picker(byId("merge-dialog"), (text) => {
  const { items, more } = mergeable(model, current(), text);
  return { items: items.map(({ content, other }) => ({ content, pick: () => merge(other.number) })), more };
});
const conceptDialog = new Picker(byId("concept-dialog"), (text) => findConcepts(text), server ? SEARCH_DELAY : 0);
const addDialog = new Picker(byId("add-dialog"), (text) => {
  const all = list.places(text.trim()), { points } = list.note;
  const around = ([start, end]) => [
    make("span", { class: "faint" }, noteText(points.slice(Math.max(0, start - 30), start).join(""))),
    make("b", {}, noteText(points.slice(start, end).join(""))),
    make("span", { class: "faint" }, noteText(points.slice(end, end + 30).join(""))),
  ];
  const items = all.slice(0, FOUND_AT_ONCE).map((place) => ({ content: around(place), pick: () => add(place) }));
  return { items, more: all.length - items.length, problem: "These words do not occur outside the mentions of the note." };
});

// Concepts for the group on the card: from the server if there is one, else from the page.
async function findConcepts(text) {
  const group = current(), words = wordsOf(text);
  let found;
  if (server) found = text.trim() ? await server.search(text, group.language ?? group.members[0].language) : [];
  else {
    const known = new Map();
    for (const one of [...model.groups.values()].flatMap((other) => other.nearest)) {
      const searched = fold(`${one.preferred_name} ${one.name ?? ""} ${one.concept_id}`);
      if (words.every((word) => searched.includes(word)) && !known.has(one.concept_id)) known.set(one.concept_id, { ...one, score: null });
    }
    found = [...known.values()].sort((a, b) => COLLATOR.compare(a.preferred_name, b.preferred_name));
  }
  const items = found.slice(0, FOUND_AT_ONCE).map((one) => ({ content: offered(one), pick: () => correct(one) }));
  return { items, more: found.length - items.length };
}

function current() {
  return model.groups.get(list.current) ?? null;
}

function say(text, failed = false) {
  const message = byId("message");
  message.textContent = text;
  message.classList.toggle("failed", failed);
}

// After an attempt to save, with the problem if there is one.
function onSaved(problem) {
  // decisions that the server rejects can still be saved as a file
  byId("save").hidden = !problem;
  if (problem) say(problem, true);
  else model.saved();
  drawSaved();
}

function drawSaved() {
  byId("save").classList.toggle("waiting", model.unsaved);
  if (server) byId("saved").textContent = document.body.inert ? "loading" : model.unsaved ? "not saved" : "saved";
}

function applyFilters() {
  const given = new FormData(filters);
  const [least, most] = given.get("size").split("-");
  list.filter({
    status: given.get("status"),
    decision: given.get("decision"),
    order: given.get("order"),
    size: [Number(least), most ? Number(most) : Infinity],
    below: Number(given.get("below")), language: given.get("language"), type: given.get("type"), qualifiers: given.get("qualifiers"),
    words: fold(given.get("search")).split(/\s+/).filter(Boolean),
  });
  const visibleCount = list.numbers.length.toLocaleString("en");
  byId("found").textContent = `${visibleCount} of ${model.groups.size.toLocaleString("en")}`;
}

function drawActions() {
  const group = current();
  const ticks = card.ticked.size;
  byId("accept").disabled = !group || group.decision === ACCEPT;
  byId("reject").disabled = !group || (group.decision === REJECT && !ticks);
  byId("split").disabled = !group || group.size < 2;
  byId("merge").disabled = !group;
  byId("correct").disabled = !group;
  byId("reopen").disabled = !group?.decision;
  byId("undo").disabled = !model.undoable;
  byId("reject").firstElementChild.textContent = ticks && ticks < group.size ? `Reject ${ticks} ticked` : "Reject";
  byId("split").firstElementChild.textContent = ticks ? `Split off ${ticks}` : "Split";
}

function choose(number, draw = true) {
  list.select(number);
  if (draw) card.show(current());
  drawActions();
}

// Redraws after a change, and selects a cluster, or one near the last position.
function refresh(number, index = list.index, draw = true) {
  applyFilters();
  const there = list.numbers.includes(number) ? number : list.numbers[Math.min(index, list.numbers.length - 1)];
  choose(there ?? list.numbers[0] ?? null, draw);
  const count = model.decided.toLocaleString("en");
  byId("decided").textContent = `${count} of ${model.groups.size.toLocaleString("en")} decided`;
  byId("progress").max = Math.max(1, model.groups.size);
  byId("progress").value = model.decided;
  drawSaved();
  if (server && model.unsaved) server.put(writeDecisions(model.rows()));
}

// Changes the cluster on the card and keeps it selected.
function change(act, draw = true) {
  const group = current();
  if (!group) return;
  act(group);
  say("");
  refresh(group.number, list.index, draw);
}

// Shows a cluster even if the filters hide it.
function reveal(number) {
  if (!list.numbers.includes(number)) {
    filters.reset();
    applyFilters();
  }
  choose(number);
}

function step(by) {
  if (!list.numbers.length) return;
  const index = Math.max(0, Math.min(list.numbers.length - 1, list.index + by));
  choose(list.numbers[index]);
}

function accept() {
  const group = current();
  if (!group || group.decision === ACCEPT) return;
  const index = list.index, next = list.numbers[index + 1];
  const problem = model.accept(group);
  if (problem) {
    say(problem, true);
    return;
  }
  refresh(next ?? group.number, index);
  if (group.concept || isClusters) say(`Accepted “${visible(group.name)}” as ${group.isNew ? "the new concept " : ""}${group.id}.`);
  else say(`Accepted “${visible(group.name)}” as a ${model.noun} without a concept.`);
}

function reject() {
  const group = current();
  if (!group) return;
  const index = list.index, next = list.numbers[index + 1];
  const some = card.ticked.size && card.ticked.size < group.size;
  const count = some ? card.ticked.size : group.size;
  model.reject(group, card.ticked);
  refresh(some ? group.number : next ?? group.number, index);
  if (!isClusters) say(`Rejected “${visible(group.name)}”.`);
  else say(`Rejected ${count === 1 ? "1 term" : `${count} terms`} of “${visible(group.name)}”.`);
}

function split() {
  const group = current();
  if (!group) return;
  const problem = model.split(group, card.ticked);
  if (problem) {
    say(problem, true);
    return;
  }
  card.ticked.clear();
  refresh(group.number);
  say(`Split “${visible(group.name)}”: the ticked terms are a cluster of their own.`);
}

function merge(number) {
  const group = current(), other = model.groups.get(number);
  if (!group || !other || other === group) return;
  model.merge(group, other);
  refresh(group.number);
  say(`“${visible(other.name)}” is now part of “${visible(group.name)}”.`);
}

function searchConcept() {
  const group = current();
  if (group) conceptDialog.open(server ? group.name : "");
}

// Uses a concept from the search; for a mention or a code this is a decision.
function correct({ concept_id: id, preferred_name: name, score = null, source = "", same_as: same = [] }) {
  model.names.set(id, name);
  change((group) => model.setConcept(group, { id, name, score, source, same }));
  if (!isClusters) accept();
}

// Accepts a candidate by its number.
function pick(index) {
  const group = current();
  const one = group && withConcept(group.nearest, group.concept)[index];
  if (one) correct(one);
}

// Adds a mention: the selected words, or words from a search.
function missed() {
  if (list.note.problem) return;
  const place = list.selected();
  if (place) add(place);
  else addDialog.open();
}

async function add([start, end]) {
  const group = model.add(list.note, start, end);
  if (typeof group === "string") {
    say(group, true);
    return;
  }
  getSelection().removeAllRanges();
  reveal(group.number);
  refresh(group.number);
  say(`Added “${visible(group.name)}”. Choose its concept, then accept it.`);
  searchConcept();
}

function turn(by) {
  choose(list.turn(by));
}

function finish() {
  const { note } = list;
  model.finish(note);
  refresh(list.current);
  say(model.done.has(note.item) ? `Marked “${visible(note.item)}” as fully annotated.` : `“${visible(note.item)}” is not marked as fully annotated any more.`);
}

function reopen() {
  const group = current();
  if (!group?.decision) return;
  model.reopen(group);
  refresh(group.number);
  say(`“${visible(group.name)}” is undecided again.`);
}

function undo() {
  const undone = model.undo();
  if (!undone) return;
  const [number] = undone.before.keys();
  refresh(number ?? list.current);
  say(`Undone: ${visible(undone.label)}.`);
}

function save() {
  const rows = model.rows();
  if (byId("save").hidden) return;
  const url = URL.createObjectURL(new Blob([writeDecisions(rows)], { type: "text/tab-separated-values" }));
  make("a", { href: url, download: FILE_NAME }).click();
  // the browser reads the blob after the click has returned
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
  model.saved();
  refresh(list.current);
  say(`Saved ${rows.length.toLocaleString("en")} rows as ${FILE_NAME}.`);
}

async function load(file) {
  try {
    const rows = readDecisions(await file.arrayBuffer(), file.name);
    try {
      model.load(rows);
    } catch (error) {
      throw new Error(`${file.name}: ${error.message}.`);
    }
    card.ticked.clear();
    refresh(list.current);
    say(`Loaded ${rows.length.toLocaleString("en")} rows of ${file.name}. They replace the earlier decisions.`);
  } catch (error) {
    say(error.message, true);
  }
}

const KEYS = {
  j: () => step(1),
  k: () => step(-1),
  ArrowDown: () => step(1),
  ArrowUp: () => step(-1),
  PageDown: () => step(list.visible),
  PageUp: () => step(-list.visible),
  Home: () => step(-list.numbers.length),
  End: () => step(list.numbers.length),
  a: accept,
  r: reject,
  c: () => !byId("correct").hidden && searchConcept(),
  o: reopen,
  u: undo,
  e: save,
  "/": () => filters.elements.search.focus(),
  "?": () => byId("help-dialog").showModal(),
};
if (isClusters) Object.assign(KEYS, { s: split, m: () => current() && mergeDialog.open() });
if (isNotes) Object.assign(KEYS, { i: missed, n: () => turn(1), p: () => turn(-1), f: finish });
// Only for the list: elsewhere these keys scroll, or move within a group of choices.
const LIST_KEYS = ["ArrowDown", "ArrowUp", "PageDown", "PageUp", "Home", "End"];

document.addEventListener("keydown", (event) => {
  // the focus stays in a closed dialog until the next frame
  const at = event.target.closest("dialog:not([open])") ? document.body : event.target;
  if (event.altKey || event.ctrlKey || event.metaKey || document.body.inert || at.closest("dialog")) return;
  if (event.key === "Escape" && at.closest("form, .card")) byId("list").focus();
  if (at.matches("select, textarea, input:not([type=checkbox], [type=radio])")) return;
  if (LIST_KEYS.includes(event.key) && !at.matches(".list, body")) return;
  // the caps lock key changes letters
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  // a held key moves repeatedly, but decides only once
  if (event.repeat && !["j", "k", ...LIST_KEYS].includes(key)) return;
  if (/^[1-9]$/.test(key)) isClusters ? card.tick(Number(key) - 1) : pick(Number(key) - 1);
  else if (Object.hasOwn(KEYS, key)) KEYS[key]();
  else return;
  event.preventDefault();
});

let waiting = 0;
filters.elements.search.addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(() => refresh(list.current, 0), SEARCH_DELAY);
});
for (const select of filters.querySelectorAll("select")) {
  select.addEventListener("change", () => refresh(list.current, 0));
}
filters.addEventListener("submit", (event) => event.preventDefault());
for (const [id, act] of Object.entries({
  accept, reject, split, merge: KEYS.m, correct: searchConcept, missed, reopen, undo, save, help: KEYS["?"],
})) {
  if (act) byId(id).addEventListener("click", act);
}
byId("more").addEventListener("click", () => {
  byId("more").setAttribute("aria-expanded", String(document.body.classList.toggle("more")));
});
byId("load").addEventListener("click", () => byId("file").click());
byId("file").addEventListener("change", (event) => {
  const [file] = event.target.files;
  // choosing the same file again must be a change
  if (file) load(file).finally(() => { event.target.value = ""; });
});
window.addEventListener("beforeunload", (event) => {
  if (model.unsaved) event.preventDefault();
});

// Some elements are only for clusters, notes or codes.
for (const element of document.querySelectorAll("[data-of]")) element.hidden = !element.dataset.of.split(" ").includes(data.kind);
byId("correct").hidden = isClusters && !server;
byId("load").hidden = Boolean(server);
if (server) {
  byId("save").hidden = true;
  byId("saved").hidden = false;
  byId("storage").textContent = "Each decision is saved immediately.";
}
// Fills a filter with the values on the page; a filter with one value is hidden.
function offer(name, values, word) {
  const select = filters.elements[name];
  const found = [...new Set(values)].sort();
  select.closest("label").hidden = found.length < 2;
  select.append(...found.map((value) => make("option", { value }, visible(word(value)))));
}
const everything = [...model.groups.values()];
offer("language", everything.flatMap((group) => group.members.map((one) => one.language)).filter(Boolean), languageName);
offer("type", everything.flatMap((group) => group.types ?? []), (type) => type);
offer("qualifiers", everything.flatMap((group) => (group.qualifiers ? (group.qualifiers.length ? group.qualifiers : ["present"]) : [])), (qualifiers) => QUALIFIER_NAMES[qualifiers] ?? qualifiers);
if (!isClusters) {
  filters.elements.order.querySelector("[value=place]").defaultSelected = true;
  for (const [value, word] of Object.entries({ known: "linked", new: "no concept" })) {
    filters.elements.status.querySelector(`[value=${value}]`).textContent = word;
  }
}
document.body.classList.add(`of-${data.kind}`);

for (const [name, value] of Object.entries(data.summary)) {
  const text = typeof value === "number" ? value.toLocaleString("en") : String(value);
  byId("summary").append(make("dt", {}, name.replaceAll("_", " ")), make("dd", {}, text));
}
// Goes on with the decisions so far.
async function begin() {
  const bytes = server ? await server.decisions() : data.decisions && new TextEncoder().encode(data.decisions);
  if (bytes) {
    model.load(readDecisions(bytes, FILE_NAME));
    model.begin();
  }
}
// what is decided before the earlier decisions are there would be lost
document.body.inert = Boolean(server || data.decisions);
refresh(null, 0);
if (document.body.inert) {
  begin().catch((error) => say(error.message, true)).finally(() => {
    document.body.inert = false;
    refresh(null, 0);
  });
}
