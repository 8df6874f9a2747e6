// The page: filters, keys, buttons, and the decisions file.

const SEARCH_DELAY = 120; // milliseconds of rest before a search, so that typing stays quick on a long list
const FILE_NAME = "decisions.tsv";

const byId = (id) => document.getElementById(id);
const data = takeData();

const model = new Model(data);
const filters = byId("filters");
const list = new List(byId("list"), model, (number) => choose(number));
const card = new Card(byId("card"), model, {
  rename: (term) => change((group) => model.rename(group, term)),
  concept: (concept) => change((group) => model.setConcept(group, concept)),
  // the card stays as it is: a click that leaves the field is meant for what stands under it
  parent: (parent) => change((group) => model.setParent(group, parent), false),
  merge: (number) => merge(number),
  show: (number) => reveal(number),
  ticks: () => drawActions(),
});
const dialog = new MergeDialog(byId("merge-dialog"), model, (number) => merge(number));

function current() {
  return model.groups.get(list.current) ?? null;
}

function say(text, failed = false) {
  const message = byId("message");
  message.textContent = text;
  message.classList.toggle("failed", failed);
}

function applyFilters() {
  const given = new FormData(filters);
  const [least, most] = given.get("size").split("-");
  list.filter({
    status: given.get("status"),
    decision: given.get("decision"),
    order: given.get("order"),
    size: [Number(least), most ? Number(most) : Infinity],
    words: fold(given.get("search")).split(/\s+/).filter(Boolean),
  });
  const shown = list.numbers.length.toLocaleString("en");
  byId("found").textContent = `${shown} of ${model.groups.size.toLocaleString("en")}`;
}

function drawActions() {
  const group = current();
  const ticks = card.ticked.size;
  byId("accept").disabled = !group || group.decision === ACCEPT;
  byId("reject").disabled = !group || (group.decision === REJECT && !ticks);
  byId("split").disabled = !group || group.size < 2;
  byId("merge").disabled = !group;
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

// Draws all anew after a change and goes to a cluster, or near where the reader was.
function refresh(number, index = list.index, draw = true) {
  applyFilters();
  const there = list.numbers.includes(number) ? number : list.numbers[Math.min(index, list.numbers.length - 1)];
  choose(there ?? list.numbers[0] ?? null, draw);
  const count = model.decided.toLocaleString("en");
  byId("decided").textContent = `${count} of ${model.groups.size.toLocaleString("en")} decided`;
  byId("progress").max = Math.max(1, model.groups.size);
  byId("progress").value = model.decided;
  byId("save").classList.toggle("waiting", model.unsaved);
}

// A change of the cluster on the card that leaves the reader there.
function change(act, draw = true) {
  const group = current();
  if (!group) return;
  act(group);
  say("");
  refresh(group.number, list.index, draw);
}

// Shows a cluster even where the filters hide it.
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
  say(`Accepted “${visible(group.name)}” as ${group.isNew ? "the new concept " : ""}${group.id}.`);
}

function reject() {
  const group = current();
  if (!group) return;
  const index = list.index, next = list.numbers[index + 1];
  const some = card.ticked.size && card.ticked.size < group.size;
  const count = some ? card.ticked.size : group.size;
  model.reject(group, card.ticked);
  refresh(some ? group.number : next ?? group.number, index);
  say(`Rejected ${count === 1 ? "1 term" : `${count} terms`} of “${visible(group.name)}”.`);
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
  refresh(number);
  say(`Undone: ${visible(undone.label)}.`);
}

function save() {
  const rows = model.rows();
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
    model.load(rows);
    card.ticked.clear();
    refresh(list.current);
    say(`Loaded ${rows.length.toLocaleString("en")} rows of ${file.name} in place of the decisions so far.`);
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
  s: split,
  m: () => current() && dialog.open(current()),
  o: reopen,
  u: undo,
  e: save,
  "/": () => filters.elements.search.focus(),
  "?": () => byId("help-dialog").showModal(),
};
// These belong to the list alone: elsewhere they scroll, or move within a group of choices.
const LIST_KEYS = ["ArrowDown", "ArrowUp", "PageDown", "PageUp", "Home", "End"];

document.addEventListener("keydown", (event) => {
  const at = event.target;
  if (event.altKey || event.ctrlKey || event.metaKey || at.closest("dialog")) return;
  if (event.key === "Escape" && at.closest("form, .card")) byId("list").focus();
  if (at.matches("select, textarea, input:not([type=checkbox], [type=radio])")) return;
  if (LIST_KEYS.includes(event.key) && !at.matches(".list, body")) return;
  // the caps lock key changes letters
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  // a key that is held down moves on, and decides only once
  if (event.repeat && !["j", "k", ...LIST_KEYS].includes(key)) return;
  if (/^[1-9]$/.test(key)) card.tick(Number(key) - 1);
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
for (const [id, act] of Object.entries({ accept, reject, split, merge: KEYS.m, reopen, undo, save, help: KEYS["?"] })) {
  byId(id).addEventListener("click", act);
}
byId("more").addEventListener("click", () => {
  byId("more").setAttribute("aria-expanded", String(document.body.classList.toggle("more")));
});
byId("load").addEventListener("click", () => byId("file").click());
byId("file").addEventListener("change", (event) => {
  const [file] = event.target.files;
  // so that choosing the same file again is a change too
  if (file) load(file).finally(() => { event.target.value = ""; });
});
window.addEventListener("beforeunload", (event) => {
  if (model.unsaved) event.preventDefault();
});

for (const [name, value] of Object.entries(data.summary)) {
  const text = typeof value === "number" ? value.toLocaleString("en") : String(value);
  byId("summary").append(make("dt", {}, name.replaceAll("_", " ")), make("dd", {}, text));
}
refresh(null, 0);
