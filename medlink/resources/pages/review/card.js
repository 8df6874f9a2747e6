// The card at the right: one cluster, mention or code, the reasons for it, and its candidates.

const MEMBERS_AT_ONCE = 200;

// Why a member belongs to its cluster.
function why(member) {
  if (!member.joined_by) return [make("span", { class: "faint" }, "the first term")];
  const to = quoted(member.joined_to);
  if (member.joined_by === "embedding") return ["similar to ", to, scoreBar(member.joined_score)];
  if (member.joined_by === "abbreviation") return ["abbreviation and long form with ", to];
  return [`${member.joined_by}, with `, to];
}

class Card {
  #box;
  #model;
  #act;
  #concepts;
  #all = false;

  // act holds what the buttons do: rename, concept, parent, merge, show, ticks. concepts gives what is known of
  // one, by id and language: an object, a promise of it, or undefined.
  constructor(box, model, act, concepts) {
    this.#box = box;
    this.#model = model;
    this.#act = act;
    this.#concepts = concepts;
    this.number = null;
    this.ticked = new Set();
  }

  show(group) {
    const same = group && group.number === this.number;
    this.number = group ? group.number : null;
    this.ticked = new Set(group && same ? group.members.filter((member) => this.ticked.has(member)) : []);
    if (!same) this.#all = false;
    if (!group) {
      this.#box.replaceChildren(make("p", { class: "empty" }, `No ${this.#model.noun} matches the filters.`));
      return;
    }
    const at = document.activeElement;
    const inside = same && this.#box.contains(at);
    this.#box.replaceChildren(
      this.#head(group), this.#concept(group), this.#about(group),
      ...(group.item === undefined ? [this.#members(group), this.#neighbours(group)] : []),
    );
    if (!same) this.#box.scrollTop = 0;
    // keep the keyboard focus
    if (inside) {
      const again = at.name === "concept" ? this.#box.querySelector("[name=concept]:checked") : null;
      (again ?? this.#box).focus({ preventScroll: true });
    }
  }

  // Ticks or unticks the member in a row, counted from 0.
  tick(index) {
    this.#box.querySelectorAll(".members input")[index]?.click();
  }

  #head(group) {
    if (group.item !== undefined) return this.#placed(group);
    const terms = group.size === 1 ? "1 term" : `${group.size.toLocaleString("en")} terms`;
    return make(
      "header", {},
      make("h2", {}, make("bdi", {}, visible(group.name))),
      make(
        "p", { class: "facts" },
        badge(group.concept ? "known" : group.ambiguous ? "ambiguous" : "new"),
        ...(group.doubtful ? [badge("doubtful")] : []),
        ...(group.decision ? [badge(group.decision, SPOKEN[group.decision])] : []),
        ...(DECISION.changed(group) && !group.decision ? [badge("changed", "changed by you")] : []),
        `${terms} · seen ${group.frequency.toLocaleString("en")} × · cluster ${group.number}`,
      ),
      ...this.#broader(group),
    );
  }

  // The broader cluster, if any, with a link to it.
  #broader(group) {
    const other = this.#model.broader(group);
    if (!other) return [];
    const go = make("button", { type: "button", class: "plain", click: () => this.#act.show(other.number) }, make("bdi", {}, visible(other.name)));
    return [make("p", { class: "broader" }, "narrower than", go, scoreBar(group.broader.probability))];
  }

  // The head of a mention or a code.
  #placed(group) {
    const where = group.kind === "code" ? [`code ${group.item}`, ...(group.frequency > 1 ? [`seen ${group.frequency.toLocaleString("en")} ×`] : [])]
      : group.section ? [`section: ${sectionName(group.section)}`] : [];
    return make(
      "header", {},
      make("h2", {}, make("bdi", {}, visible(group.name))),
      make(
        "p", { class: "facts" },
        ...(group.expanded ? ["for", quoted(oneLine(group.expanded))] : []),
        group.concept ? badge("linked") : group.ambiguous ? badge("ambiguous") : badge("new", "no concept"),
        ...qualifierBadges({ qualifiers: group.qualifiers ?? null }, true),
        ...(group.decision ? [badge(group.decision, SPOKEN[group.decision])] : []),
        [...(group.added ? ["added by you"] : []), ...(group.language ? [languageName(group.language)] : []), ...where].map(visible).join(" · "),
      ),
      ...(group.value ? [make("p", { class: "faint" }, visible(group.value))] : []),
    );
  }

  // Facts about the selected concept; those from the server are filled in when they arrive.
  #about(group) {
    const box = make("section", { class: "about-concept", "aria-label": "The concept", hidden: true });
    const id = group.concept?.id ?? (group.item === undefined ? undefined : group.nearest[0]?.concept_id);
    if (!id) return box;
    const one = group.nearest.find((near) => near.concept_id === id);
    const fill = (concept) => {
      if (!concept) return;
      const why = one?.name ? [["why", make("span", {}, `${one.route ? `${one.route}: ` : ""}`, quoted(one.name))]] : [];
      box.hidden = false;
      box.replaceChildren(
        make("h3", {}, make("bdi", {}, visible(group.concept ? group.concept.name : one.preferred_name))),
        ...aboutConcept(concept, [
          ["id", make("code", {}, visible(id))], ["source", visible(concept.source)],
          ["type", visible(concept.semantic_types.join(", "))], ...why,
        ]));
    };
    const known = this.#concepts(id, group.language ?? group.members[0].language);
    if (known instanceof Promise) known.then(fill);
    else fill(known);
    return box;
  }

  #concept(group) {
    const offered = withConcept(group.nearest, group.concept);
    const choice = (checked, concept, ...content) => make(
      "label", { class: "choice" },
      make("input", { type: "radio", name: "concept", checked, change: () => this.#act.concept(concept) }),
      ...content,
    );
    const rows = offered.map(({ concept_id: id, preferred_name: name, score, source, same_as: same }) => {
      // the source distinguishes concepts of one name
      const equal = source && offered.some((one) => one.concept_id !== id && fold(one.preferred_name) === fold(name));
      return choice(
        group.concept?.id === id, { id, name, score, source, same },
        make("span", { class: "what" }, make("bdi", {}, visible(name)), make("code", {}, visible([id, ...same].join(" = "))),
          ...(equal ? [badge("source", visible(source))] : [])),
        scoreBar(score),
      );
    });
    const none = group.item === undefined
      ? ["A new concept", make("code", {}, group.newId)] : [`No concept of the terminology`];
    rows.push(choice(!group.concept && !group.ambiguous, null, make("span", { class: "what" }, ...none)));
    const parts = [make("legend", {}, "Concept"), ...rows, make("p", { class: "faint least" },
      `Candidates with a score below ${this.#model.least} are not shown.`)];
    if (group.item === undefined && group.isNew && !group.ambiguous) parts.push(this.#parent(group));
    return make("fieldset", { class: "concept" }, ...parts);
  }

  #parent(group) {
    const options = new Map(group.nearest.map((one) => [one.concept_id, one.preferred_name]));
    if (group.parent) options.set(group.parent, this.#model.names.get(group.parent) ?? "");
    const name = make("span", { class: "faint" });
    const draw = (id) => name.replaceChildren(make("bdi", {}, visible(this.#model.names.get(id) ?? "")));
    draw(group.parent);
    return make(
      "p", { class: "parent" },
      make("label", { for: "parent" }, "Parent"),
      make("input", {
        id: "parent", list: "parents", value: group.parent, spellcheck: "false", autocomplete: "off",
        placeholder: "id of the broader concept",
        change: (event) => {
          const id = event.target.value.split(SPACE).join(" ").trim();
          event.target.value = id;
          this.#act.parent(id);
          draw(id);
        },
      }),
      make("datalist", { id: "parents" },
        ...[...options].map(([id, text]) => make("option", { value: id }, visible(text)))),
      name,
    );
  }

  #members(group) {
    const shown = this.#all ? group.members : group.members.slice(0, MEMBERS_AT_ONCE);
    const rows = shown.map((member, index) => make(
      "tr", {},
      make("td", { class: "tick" }, make("input", {
        type: "checkbox", id: `tick-${index}`, checked: this.ticked.has(member),
        "aria-label": `tick ${member.term}`,
        change: (event) => {
          if (event.target.checked) this.ticked.add(member);
          else this.ticked.delete(member);
          this.#act.ticks();
        },
      })),
      make("th", { scope: "row" }, make("label", { for: `tick-${index}` }, make("bdi", {}, visible(member.term))),
        ...(member.id ? [make("code", {}, visible(member.id))] : [])),
      make("td", { "data-label": "language" }, member.language || "–"),
      make("td", { class: "number", "data-label": "seen" }, member.frequency.toLocaleString("en")),
      make("td", { "data-label": "similarity" }, scoreBar(member.similarity)),
      make("td", { class: "why", "data-label": "joined" }, ...why(member)),
      make("td", { class: "do" }, member.term === group.name ? make("span", { class: "faint" }, "name")
        : make("button", { type: "button", class: "plain", click: () => this.#act.rename(member.term) }, "use as name")),
    ));
    const table = make(
      "table", { class: "members" },
      make("caption", {}, "Members"),
      make("thead", {}, make("tr", {}, ...["", "Term", "Language", "Seen", "Similarity to name", "Why it joined", ""]
        .map((text) => make("th", { scope: "col", class: text === "Seen" && "number" }, text)))),
      make("tbody", {}, ...rows),
    );
    if (shown.length === group.size) return table;
    const more = make("button", {
      type: "button", click: () => {
        this.#all = true;
        this.show(this.#model.groups.get(group.number));
      },
    }, `Show all ${group.size.toLocaleString("en")} members`);
    return make("div", {}, table, more);
  }

  #neighbours(group) {
    const seen = new Set(), rows = [];
    const apart = (neighbour) => {
      if (neighbour.apart) return badge("guard", neighbour.apart);
      return neighbour.probability >= this.#model.maybe ? badge("maybe") : make("span", { class: "faint" }, "not similar enough");
    };
    // a cluster with one member need not name the member
    const namesMember = ({ member }) => member && (group.size > 1 || group.members[0].term !== member);
    for (const neighbour of group.neighbours) {
      const other = this.#model.find(neighbour);
      if (!other || other === group || seen.has(other.number)) continue;
      seen.add(other.number);
      rows.push(make(
        "tr", {},
        make("th", { scope: "row" }, make("bdi", {}, visible(neighbour.term)),
          ...(other.name === neighbour.term ? [] : [make("span", { class: "faint" }, " in "), quoted(other.name)]),
          ...(namesMember(neighbour) ? [make("span", { class: "of faint" }, "with ", quoted(neighbour.member))] : [])),
        make("td", { "data-label": "probability" }, scoreBar(neighbour.probability)),
        make("td", { class: "why", "data-label": "apart" }, apart(neighbour)),
        make("td", { class: "do" },
          make("button", { type: "button", click: () => this.#act.merge(other.number) }, "Merge"),
          make("button", { type: "button", class: "plain", click: () => this.#act.show(other.number) }, "show")),
      ));
    }
    if (!rows.length) return "";
    return make(
      "table", { class: "neighbours" },
      make("caption", {}, "Nearest terms of other clusters"),
      make("thead", {}, make("tr", {}, ...["Term", "Probability", "Why separate", ""]
        .map((text) => make("th", { scope: "col" }, text)))),
      make("tbody", {}, ...rows),
    );
  }
}
