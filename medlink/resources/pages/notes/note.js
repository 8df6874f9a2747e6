// A note as it is read: its text with a button for each mention, and all its links as a table.

// an ambiguous mention is a name of several concepts, of which none is said to be meant
const STATUS = { linked: "linked", ambiguous: "ambiguous", nil: "NIL" };
const LANGUAGES = new Intl.DisplayNames("en", { type: "language", fallback: "none" });

function languageName(tag) {
  try {
    return LANGUAGES.of(tag) ?? tag;
  } catch {
    return tag || "no language"; // a source may write what is no tag
  }
}

// Notes keep their line ends and tabs; other control characters are shown by their pictures.
function noteText(text) {
  return text.replaceAll("\r\n", "\n").replace(/[^\n\t]+/g, visible);
}

// The concept a mention is linked to, null where there is none.
function linkedTo(mention) {
  return mention.status === "linked" ? mention.candidates[0] : null;
}

function oneLine(text) {
  return text.split(/\s+/).join(" ");
}

// "58 mentions: 56 linked, 2 NIL"
function counts(mentions) {
  const found = Object.entries(STATUS).map(([status, word]) => {
    const number = mentions.filter((mention) => mention.status === status).length;
    return number && `${number.toLocaleString("en")} ${word}`;
  }).filter(Boolean);
  return count(mentions.length, "mention", "mentions") + (found.length ? `: ${found.join(", ")}` : "");
}

// choose is called with a mention when the reader picks it, and whether with the keyboard.
function drawNote(note, choose) {
  const mentions = note.parts.filter((part) => typeof part !== "string");
  const text = make("div", { class: "text", lang: note.language || undefined, dir: "auto" });
  for (const part of note.parts) text.append(typeof part === "string" ? noteText(part) : drawMention(part, choose));
  const table = mentions.length
    ? [make("details", { class: "links" }, make("summary", {}, "All links as a table"), drawTable(mentions, note.language))]
    : [];
  const facts = [note.language ? languageName(note.language) : "", note.problem ? "" : counts(mentions)].filter(Boolean);
  return make(
    "section", { class: "note" },
    make("h2", {}, make("bdi", {}, visible(note.name))),
    make("p", { class: "facts" }, facts.join(" · ")),
    note.problem ? make("p", { class: "problem" }, `This note was not linked: ${visible(note.problem)}`) : text,
    ...table,
  );
}

function drawMention(mention, choose) {
  const best = linkedTo(mention);
  const title = best ? `${best.preferred_name} · ${best.score.toFixed(2)}` : STATUS[mention.status];
  mention.element = make("span", {
    class: `mention ${mention.status}`, role: "button", tabindex: "0", title: visible(title),
    "aria-expanded": "false", "aria-controls": "card",
    click: () => choose(mention, false),
    keydown: (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      choose(mention, true);
    },
  }, noteText(mention.text));
  return mention.element;
}

function drawTable(mentions, language) {
  const rows = mentions.map((mention) => {
    const best = linkedTo(mention);
    return make(
      "tr", {},
      make("th", { scope: "row", lang: language || undefined }, make("bdi", {}, visible(oneLine(mention.text)))),
      make("td", {}, ...(best
        ? [make("bdi", {}, visible(best.preferred_name)), " ", make("code", {}, visible(best.concept_id))]
        : [badge(mention.status, STATUS[mention.status])])),
      make("td", { class: "number" }, best ? best.score.toFixed(2) : "–"),
    );
  });
  return make(
    "table", {},
    make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Mention"), make("th", { scope: "col" }, "Concept"),
      make("th", { scope: "col", class: "number" }, "Score"))),
    make("tbody", {}, ...rows),
  );
}
