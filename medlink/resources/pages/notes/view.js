// Linked notes: their text at the left, the card of one mention beside or below them, filters above.

const byId = (id) => document.getElementById(id);
const all = [];
let current = null;
let card = null;

// Replaces the notes of the page; decide gives what a reader may decide about a candidate, or about the mention.
function showNotes(data, decide = () => []) {
  const concepts = new Map(data.concepts.map((row) => {
    const concept = record(data.fields.concept, row);
    return [`${concept.language} ${concept.concept_id}`, concept];
  }));
  all.length = 0;
  current = null;
  card = new ConceptCard(byId("card"), concepts, data.least, () => close(), decide);
  byId("notes").replaceChildren(...data.notes.map((row) => drawNote(noteOf(data.fields, row), choose)));
  byId("summary").textContent = `${count(data.notes.length, "note", "notes")} · ${counts(all)}`;
  byId("filter").replaceChildren(chips("status", { all: "all", ...STATUS }, (mention, status) => mention.status === status));
  const present = Object.entries(QUALIFIER_NAMES).filter(([value]) => all.some((mention) => hasQualifier(mention, value)));
  if (present.length) byId("filter").append(chips("qualifiers", { all: "all", ...Object.fromEntries(present) }, hasQualifier));
  byId("legend").hidden = !present.length;
}

function noteOf(fields, row) {
  const note = record(fields.note, row);
  note.parts = note.parts.map((part) => {
    if (!Array.isArray(part)) return part;
    const mention = { ...record(fields.mention, part), language: note.language };
    mention.attributes = mention.attributes.map((one) => record(fields.attribute, one));
    mention.candidates = mention.candidates.map((one) => record(fields.candidate, one));
    all.push(mention);
    return mention;
  });
  return note;
}

function choose(mention, byKey) {
  if (current) current.element.setAttribute("aria-expanded", "false");
  current = mention;
  mention.element.setAttribute("aria-expanded", "true");
  card.show(mention, mention.language);
  // keyboard users move into the card, and return with Escape
  if (byKey) byId("card").focus({ preventScroll: true });
  // on a small screen the card lies over the end of the page
  mention.element.scrollIntoView({ block: "nearest" });
}

function close() {
  if (!current) return;
  const { element } = current;
  element.setAttribute("aria-expanded", "false");
  current = null;
  card.hide();
  element.focus({ preventScroll: true });
}

function fits(mention) {
  const { status, qualifiers = "all" } = Object.fromEntries(new FormData(byId("filter")));
  return (status === "all" || mention.status === status) && (qualifiers === "all" || hasQualifier(mention, qualifiers));
}

function step(by) {
  const reachable = all.filter((mention) => mention === current || fits(mention));
  const last = current ?? all.find((mention) => mention.element === document.activeElement);
  const next = reachable[reachable.indexOf(last) + (last || by > 0 ? by : reachable.length)];
  if (!next) return;
  choose(next, false);
  next.element.focus({ preventScroll: true });
}

function applyFilter() {
  for (const mention of all) {
    const off = !fits(mention);
    mention.element.classList.toggle("off", off);
    mention.element.tabIndex = off ? -1 : 0;
  }
  if (current && !fits(current)) close();
}

// A row of radio buttons with the number of mentions that match each.
function chips(name, words, fitting) {
  return make("div", { class: "chips", role: "radiogroup" }, ...Object.entries(words).map(([value, word]) => {
    const number = value === "all" ? all.length : all.filter((mention) => fitting(mention, value)).length;
    return make(
      "label", { class: "chip" },
      make("input", {
        type: "radio", name, value, checked: value === "all", disabled: value !== "all" && !number, change: applyFilter,
      }),
      make("span", { class: value === "all" ? "" : `mention ${value in QUALIFIER_NAMES ? "says-" : ""}${value}`, "data-signs": SIGNS[value] }, word),
      make("span", { class: "number" }, number.toLocaleString("en")),
    );
  }));
}

byId("filter").addEventListener("submit", (event) => event.preventDefault());

document.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey || event.target.closest?.("textarea, select, dialog")) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (key === "Escape") close();
  else if (key === "j") step(1);
  else if (key === "k") step(-1);
});
// cards cannot be opened on paper, so the tables list the links
window.addEventListener("beforeprint", () => {
  for (const links of document.querySelectorAll("details.links")) links.open = true;
});
