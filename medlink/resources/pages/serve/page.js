// The page of the service: a note is written or pasted, linked, and its links are corrected.

const SEARCH_DELAY = 120; // milliseconds of rest before a search
const MARKS = { accept: "✓", none: "∅", reject: "✕" };
const MADE = { accept: "accepted", none: "no concept", reject: "no mention" };

const ask = byId("ask");
const dialog = new Picker(byId("concept-dialog"), findConcepts, SEARCH_DELAY);
let info = null;
let asked = null; // what the shown note was linked from
let made = new Map(); // decisions about its mentions, by place

// Sends a request, a POST if there is a body; an error has the sentence of the service.
async function call(path, body) {
  const token = sessionStorage.getItem("token");
  const options = body === undefined ? {} : { method: "POST", body: JSON.stringify(body) };
  let answer;
  try {
    answer = await fetch(path, { cache: "no-store", headers: token ? { Authorization: `Bearer ${token}` } : {}, ...options });
  } catch {
    throw new Error("medlink serve does not answer. Start it again.");
  }
  if (answer.ok) return answer;
  if (answer.status === 401) byId("token").hidden = false;
  throw new Error(await answer.json().then((problem) => problem.detail, () => answer.statusText));
}

function say(text, failed = false) {
  byId("message").textContent = text;
  byId("message").classList.toggle("failed", failed);
}

// Does something, and shows why it failed.
async function attempt(work) {
  try {
    await work();
  } catch (error) {
    say(error.message, true);
  }
}

async function start() {
  info = await (await call("info")).json();
  byId("token").hidden = true;
  ask.elements.bundle.replaceChildren(...info.bundles.map(({ name }) => make("option", { value: name }, visible(name))));
  byId("bundles").hidden = info.bundles.length < 2;
  const tags = [...new Set(info.bundles.flatMap(({ languages }) => languages))].filter(Boolean);
  const chosen = ask.elements.language.value;
  ask.elements.language.replaceChildren(make("option", { value: "" }, "find it"),
    ...tags.map((tag) => make("option", { value: tag }, languageName(tag))));
  ask.elements.language.value = chosen;
}

async function link() {
  if (ask.elements.token.value) sessionStorage.setItem("token", ask.elements.token.value);
  if (!info) await start();
  const { text, language, bundle } = ask.elements;
  asked = { text: text.value, language: language.value || null, bundle: bundle.value };
  say("…");
  const answer = await (await call("page", asked)).json();
  asked.id = answer.item;
  made = new Map(answer.decisions.map((row) => [place(row), row]));
  showNotes(answer.data, info.decisions ? decide : undefined);
  for (const mention of all) mark(mention);
  document.body.classList.add("linked");
  byId("copy").hidden = false;
  say(answer.data.notes[0][2] ?? "");
}

function place({ start, end }) {
  return `${start}-${end}`;
}

// A sign before the words of a mention that somebody decided.
function mark(mention) {
  const row = made.get(place(mention));
  if (row) mention.element.setAttribute("data-mark", MARKS[row.decision]);
  else mention.element.removeAttribute("data-mark");
  mention.element.classList.toggle("reject", row?.decision === "reject");
}

// Buttons for a candidate; without one for the mention.
function decide(mention, candidate) {
  const button = (text, decision, concept, key) => make(
    "button", { type: "button", "aria-keyshortcuts": key, click: () => attempt(() => save(mention, decision, concept)) }, text, ...(key ? [" ", make("kbd", {}, key)] : []));
  if (candidate) return [make("p", { class: "decide" }, button("Take this concept", "accept", candidate.concept_id))];
  const row = made.get(place(mention)), best = linkedTo(mention);
  return [make(
    "p", { class: "decide" },
    ...(row ? [badge(row.decision === "accept" ? "accept" : "reject", MADE[row.decision]),
      ...(row.concept_id ? [make("code", {}, visible(row.concept_id))] : [])] : []),
    ...(best ? [button("Accept", "accept", best.concept_id, "a")] : []),
    make("button", { type: "button", "aria-keyshortcuts": "c", click: () => search(mention) }, "Another concept ", make("kbd", {}, "c")),
    button("No concept", "none", ""),
    button("No mention", "reject", "", "r"),
    ...(row ? [button("Reopen", "", "", "o")] : []),
  )];
}

async function save(mention, decision, concept) {
  const row = {
    item: asked.id, start: mention.start, end: mention.end, name: mention.text, language: mention.language, section: mention.section ?? "",
    proposed: linkedTo(mention)?.concept_id ?? "", decision, concept_id: concept, bundle: asked.bundle,
  };
  await call("decisions", row);
  if (decision) made.set(place(mention), row);
  else made.delete(place(mention));
  mark(mention);
  if (current === mention) {
    card.show(mention, mention.language);
    byId("card").focus({ preventScroll: true });
  }
  say("saved");
}

function search(mention) {
  dialog.open(oneLine(mention.text));
}

async function findConcepts(text) {
  const mention = current;
  if (!text.trim()) return { items: [], more: 0 };
  const query = new URLSearchParams({ text, language: mention.language, bundle: asked.bundle });
  const { concepts } = await (await call(`search?${query}`)).json();
  return { items: concepts.map((one) => ({ content: offered(one), pick: () => attempt(() => save(mention, "accept", one.concept_id)) })), more: 0 };
}

async function copy() {
  const { id, text, language, bundle } = asked;
  const answer = await (await call("link", { notes: [{ id, text, language }], bundle, values: true })).json();
  const json = JSON.stringify(answer, null, 2);
  try {
    await navigator.clipboard.writeText(json);
  } catch {
    // without TLS the browser has no clipboard for pages of other machines
    const area = make("textarea", {});
    area.value = json;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  say("copied");
}

ask.addEventListener("submit", (event) => {
  event.preventDefault();
  attempt(link);
});
ask.elements.text.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) ask.requestSubmit();
  if (event.key === "Escape") event.target.blur(); // so that the keys of the notes work
});
byId("copy").addEventListener("click", () => attempt(copy));
document.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey || event.target.closest?.("textarea, select, input, dialog")) return;
  if (!current) return;
  const key = event.key.toLowerCase();
  const button = byId("card").querySelector(`.decide [aria-keyshortcuts="${CSS.escape(key)}"]`);
  if (!button) return;
  event.preventDefault();
  button.click();
});
attempt(start);
