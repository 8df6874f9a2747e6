// A note as it is read: its text with a button for each mention, and all its links as a table.

// an ambiguous mention is a name of several concepts, none of which was selected
const STATUS = { linked: "linked", ambiguous: "ambiguous", nil: "NIL" };

// The concept a mention is linked to, null where there is none.
function linkedTo(mention) {
  return mention.status === "linked" ? mention.candidates[0] : null;
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
  const mentions = note.parts.filter((part) => part.candidates);
  const text = make("div", { class: "text", lang: note.language || undefined, dir: "auto" });
  for (const part of note.parts) text.append(draw(part, choose));
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

// A part of a note: plain text, a heading, or a mention.
function draw(part, choose) {
  if (typeof part === "string") return noteText(part);
  if (part.candidates) return drawMention(part, choose);
  const title = part.section ? `section: ${sectionName(part.section)}` : undefined;
  return make("span", { class: "heading", title }, noteText(part.heading));
}

function drawMention(mention, choose) {
  const best = linkedTo(mention);
  const qualifiers = mention.qualifiers ?? [];
  const title = [
    best ? `${best.preferred_name} · ${best.score.toFixed(2)}` : STATUS[mention.status], ...qualifiers.map((one) => QUALIFIER_NAMES[one]),
  ].join(" · ");
  mention.element = make("span", {
    class: ["mention", mention.status, ...qualifiers.map((one) => `says-${one}`)].join(" "), "data-signs": qualifiers.map((one) => SIGNS[one]).join("") || undefined,
    role: "button", tabindex: "0", title: visible(title),
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
      make("th", { scope: "row", lang: language || undefined }, make("bdi", {}, visible(oneLine(mention.text))),
        ...qualifierBadges(mention, false).flatMap((one) => [" ", one])),
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
