// What is known of a mention: the concept it is linked to, why, and what else it may be.

const ROUTE = {
  exact: "the name", inflected: "a form of the name", words: "the words of the name", dense: "close in meaning to the name",
  learned: "learned from annotated notes, the concept with the name",
};
const UNDECIDED = {
  ambiguous: { title: "Several concepts", text: "The mention is a name of several concepts; nothing says which is meant." },
  nil: { title: "No concept", text: "No candidate reaches the threshold." },
};

class ConceptCard {
  #box;
  #concepts;
  #least;
  #close;
  #decide;

  // concepts gives what the page knows of a concept, by language of the note and id; close is called by the button.
  // decide gives buttons for a candidate, and for the mention if it has none.
  constructor(box, concepts, least, close, decide) {
    this.#box = box;
    this.#concepts = concepts;
    this.#least = least;
    this.#close = close;
    this.#decide = decide;
    this.hide();
  }

  hide() {
    this.#box.classList.remove("open");
    this.#box.replaceChildren(make(
      "p", { class: "empty" }, "Choose a mention to see its concept. ",
      make("kbd", {}, "j"), " and ", make("kbd", {}, "k"), " lead to the next and the previous one, ",
      make("kbd", {}, "Esc"), " closes the card.",
    ));
  }

  show(mention, language) {
    const best = linkedTo(mention);
    this.#box.classList.add("open");
    this.#box.replaceChildren(
      make("button", { type: "button", class: "close plain", "aria-label": "Close the card", click: this.#close }, "✕"),
      make("p", { class: "facts" }, quoted(oneLine(mention.text)),
        ...(mention.expanded ? ["for", quoted(oneLine(mention.expanded))] : []), badge(mention.status, STATUS[mention.status]),
        ...qualifierBadges(mention, true)),
      ...this.#beside(mention),
      make("h2", {}, best ? make("bdi", {}, visible(best.preferred_name)) : UNDECIDED[mention.status].title),
      ...this.#decide(mention, null),
      ...(best ? this.#concept(best, language) : [make("p", {}, UNDECIDED[mention.status].text)]),
      ...this.#others(mention, mention.candidates.filter((one) => one !== best), language, best),
    );
    this.#box.scrollTop = 0;
  }

  // Measured value, attributes and section of the mention.
  #beside(mention) {
    const chips = mention.attributes.map((one) => make(
      "li", { title: visible([one.name, one.concept_id].filter(Boolean).join(" · ")) || undefined },
      make("bdi", {}, visible(oneLine(one.text))), " ", make("span", { class: "faint" }, one.kind),
    ));
    const section = mention.section ? [make("p", { class: "section faint" }, `section: ${sectionName(mention.section)}`)] : [];
    const value = mention.value ? [make("p", { class: "section faint" }, visible(mention.value))] : [];
    return [...value, ...(chips.length ? [make("ul", { class: "attributes", "aria-label": "Attributes" }, ...chips)] : []), ...section];
  }

  // Facts about one candidate and its concept.
  #concept(candidate, language) {
    const concept = this.#concepts.get(`${language} ${candidate.concept_id}`);
    const why = [`${ROUTE[candidate.route] ?? candidate.route} `, quoted(candidate.name)];
    if (candidate.language) why.push(` (${languageName(candidate.language)})`);
    const rows = [
      ["id", make("code", {}, visible([candidate.concept_id, ...candidate.same_as].join(" = ")))],
      ["source", visible(concept?.source || candidate.source)],
      ["type", visible(concept?.semantic_types.join(", ") ?? "")],
      ["score", scoreBar(candidate.score)],
      ["why", make("span", {}, ...why)],
    ];
    return aboutConcept(concept, rows);
  }

  #others(mention, candidates, language, best) {
    const heading = best ? "Other candidates" : "Candidates";
    const rows = candidates.map((one) => make(
      "details", { class: "other" },
      make("summary", {},
        make("span", { class: "what" }, make("bdi", {}, visible(one.preferred_name)),
          make("code", {}, visible(one.concept_id)), make("span", { class: "faint" }, visible(one.source))),
        scoreBar(one.score)),
      ...this.#concept(one, language),
      ...this.#decide(mention, one),
    ));
    return [
      make("h3", {}, candidates.length ? heading : `No ${heading.toLowerCase()}`),
      ...rows,
      make("p", { class: "faint least" }, `Candidates with a score below ${this.#least} are not shown.`),
    ];
  }
}
