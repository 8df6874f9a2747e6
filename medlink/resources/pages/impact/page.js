// Changes of links by a new release: a row for each change, with examples of its texts and notes.

const data = takeData();
const byId = (id) => document.getElementById(id);

function concept(id, name, score) {
  const parts = [make("bdi", {}, visible(name || "–"))];
  if (id) parts.push(" ", make("code", {}, visible(id)));
  if (score !== null) parts.push(" ", scoreBar(score));
  return parts;
}

// Marks a first candidate that was not linked.
function now(change) {
  if (!change.new_preferred_name) return ["–"];
  const parts = concept(change.new_concept_id, change.new_preferred_name, change.new_score);
  if (!change.new_concept_id) parts.unshift(make("span", { class: "faint" }, "not linked: "));
  return parts;
}

function why(change) {
  const parts = [visible(change.reason)];
  const how = change.how.replaceAll("_", " ");
  if (how) parts.push(make("div", { class: "faint" }, visible(`${how} ${change.replaced_by}`.trim())));
  return parts;
}

function written(change) {
  const parts = [];
  for (const text of change.texts) parts.push(quoted(text), " ");
  if (change.more_texts) parts.push(make("span", { class: "faint" }, `and ${count(change.more_texts, "link", "links")} more`));
  const notes = change.some_notes.map((note) => make("div", {}, visible(note)));
  const left = change.notes - notes.length;
  if (left > 0) notes.push(make("div", { class: "faint" }, `and ${count(left, "note", "notes")} more`));
  parts.push(make("details", {}, make("summary", {}, "notes"), ...notes));
  return parts;
}

const all = data.changes.map((row) => {
  const change = record(data.fields, row);
  const element = make("tr", {},
    make("td", {}, badge(change.result)),
    make("td", {}, ...concept(change.concept_id, change.preferred_name, change.score)),
    make("td", {}, ...now(change)),
    make("td", {}, ...why(change)),
    make("td", { class: "number" }, change.links.toLocaleString("en")),
    make("td", { class: "number" }, change.notes.toLocaleString("en")),
    make("td", {}, ...written(change)));
  const words = [change.concept_id, change.preferred_name, change.new_concept_id, change.new_preferred_name,
    change.reason, ...change.texts];
  return { element, result: change.result, words: words.join("\n").toLowerCase() };
});

function filter() {
  const { search, result } = Object.fromEntries(new FormData(byId("filters")));
  const wanted = search.trim().toLowerCase();
  let matching = 0;
  for (const { element, ...change } of all) {
    element.hidden = (result !== "all" && change.result !== result) || !change.words.includes(wanted);
    matching += element.hidden ? 0 : 1;
  }
  byId("found").textContent = count(matching, "change", "changes");
}

const { report } = data;
byId("releases").textContent = visible(`From ${data.releases[0]} to ${data.releases[1]}`);
byId("summary").append(
  `${report.changed_notes.toLocaleString("en")} of ${count(report.notes, "note", "notes")} would be coded differently; ` +
  `of ${count(report.checked, "link", "links")} ${report.results.same.toLocaleString("en")} are unchanged. `,
  ...Object.entries(report.results).filter(([name, number]) => name !== "same" && number)
    .flatMap(([name, number]) => [badge(name, `${name} ${number.toLocaleString("en")}`), " "]));
byId("changes").append(...all.map((change) => change.element));
for (const event of ["input", "change"]) byId("filters").addEventListener(event, filter);
byId("filters").addEventListener("submit", (event) => event.preventDefault());
filter();
