// The note at the left, with its mentions in place; one note at a time.

const NOT_HERE = "Select words of the note.";

class NoteText {
  #box;
  #model;
  #choose;
  #act;
  // text nodes of the note: their offset in the note, and the offset of each displayed character
  #offsets = new WeakMap();

  // choose is called with the number of a mention when the reader picks it; act holds open and finish.
  constructor(box, model, choose, act) {
    this.#box = box;
    this.#model = model;
    this.#choose = choose;
    this.#act = act;
    this.numbers = [];
    this.current = null;
    this.note = model.notes[0] ?? null;
    box.classList.add("reading");
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", "Note");
  }

  filter(wanted) {
    this.numbers = [...matching(this.#model, wanted).keys()];
    this.draw();
  }

  get index() {
    return this.numbers.indexOf(this.current);
  }

  get visible() {
    return 10;
  }

  select(number) {
    this.current = number;
    const group = this.#model.groups.get(number);
    const note = group && this.#model.byItem.get(group.item);
    const other = note && note !== this.note;
    if (note) this.note = note;
    this.draw();
    const element = this.#box.querySelector("[aria-expanded=true]");
    if (element) element.scrollIntoView({ block: "nearest" });
    else if (other) this.#box.scrollTop = 0;
  }

  // Shows the next note, or one before; it need not have a mention.
  turn(by) {
    const index = Math.max(0, Math.min(this.#model.notes.length - 1, this.note.index + by));
    this.note = this.#model.notes[index];
    this.current = this.#model.of(this.note).find((group) => this.numbers.includes(group.number))?.number ?? null;
    this.#box.scrollTop = 0;
    return this.current;
  }

  // The places of some words in the note that are not part of another mention or of a longer word.
  places(words) {
    const { points } = this.note, wanted = Array.from(words), found = [];
    const letter = (point) => point !== undefined && /[\p{L}\p{N}]/u.test(point);
    for (let start = 0; wanted.length && start + wanted.length <= points.length; start += 1) {
      const end = start + wanted.length;
      if (wanted.every((point, at) => points[start + at].toLowerCase() === point.toLowerCase())
        && !(letter(points[start - 1]) && letter(points[start])) && !(letter(points[end - 1]) && letter(points[end]))
        && !this.#taken(start, end)) found.push([start, end]);
    }
    return found;
  }

  // The place of the words that are selected, without blanks around them; null where no words of the note are.
  selected() {
    const selection = getSelection();
    if (!selection.rangeCount || selection.isCollapsed) return null;
    const range = selection.getRangeAt(0);
    let start = this.#point(range.startContainer, range.startOffset), end = this.#point(range.endContainer, range.endOffset);
    if (start === null || end === null) return null;
    const blank = (at) => !this.note.points[at].trim();
    while (start < end && blank(start)) start += 1;
    while (end > start && blank(end - 1)) end -= 1;
    return start < end ? [start, end] : null;
  }

  #taken(start, end) {
    return this.#model.of(this.note).some((group) => group.start < end && start < group.end && group.decision !== REJECT);
  }

  #point(node, offset) {
    const known = this.#offsets.get(node);
    if (!known) return null;
    const at = known.places.findIndex((place) => place >= offset);
    return known.start + (at < 0 ? known.places.length - 1 : at);
  }

  // A stretch of the note as a text node that remembers where it stands.
  #node(start, end) {
    const { points } = this.note, places = [0];
    let text = "";
    for (let at = start; at < end; at += 1) {
      text += points[at] === "\r" && points[at + 1] === "\n" ? "" : noteText(points[at]);
      places.push(text.length);
    }
    const node = document.createTextNode(text);
    this.#offsets.set(node, { start, places });
    return node;
  }

  draw() {
    if (!this.note) {
      this.#box.replaceChildren(make("p", { class: "empty" }, "There is no note."));
      return;
    }
    const { note } = this, top = this.#box.scrollTop, parts = [];
    const rank = (group) => (group.number === this.current ? 0 : group.decision === REJECT ? 2 : 1);
    const drawn = [];
    // of mentions that overlap one is drawn: the one that is looked at, else one that is not rejected
    for (const group of this.#model.of(note).sort((a, b) => rank(a) - rank(b))) {
      if (!drawn.some((one) => one.start < group.end && group.start < one.end)) drawn.push(group);
    }
    const matching = new Set(this.numbers);
    let end = 0;
    for (const group of drawn.sort((a, b) => a.start - b.start)) {
      parts.push(this.#node(end, group.start), this.#mention(group, matching.has(group.number)));
      end = group.end;
    }
    parts.push(this.#node(end, note.points.length));
    const all = this.#model.of(note), open = all.filter((group) => !group.decision).length;
    this.#box.replaceChildren(
      make("header", { class: "note-head" },
        make("h2", {}, make("bdi", {}, visible(note.item))),
        make("p", { class: "facts" }, [
          `note ${(note.index + 1).toLocaleString("en")} of ${this.#model.notes.length.toLocaleString("en")}`,
          ...(note.language ? [languageName(note.language)] : []), count(all.length, "mention", "mentions"), `${open} undecided`,
        ].join(" · ")),
        make("p", { class: "turn" },
          make("button", { type: "button", disabled: !note.index, click: () => this.#act.turn(-1) }, "‹ Note ", make("kbd", {}, "p")),
          make("button", { type: "button", disabled: note.index + 1 === this.#model.notes.length, click: () => this.#act.turn(1) },
            "Note › ", make("kbd", {}, "n")),
          make("button", { type: "button", "aria-pressed": String(this.#model.done.has(note.item)), click: this.#act.finish },
            this.#model.done.has(note.item) ? "✓ Fully annotated " : "Fully annotated ", make("kbd", {}, "f")))),
      note.problem ? make("p", { class: "problem" }, visible(note.problem))
        : make("div", { class: "text", lang: note.language || undefined, dir: "auto" }, ...parts),
    );
    this.#box.scrollTop = top;
  }

  #mention(group, fits) {
    const qualifiers = group.qualifiers ?? [];
    const state = group.ambiguous ? "ambiguous" : group.concept ? "linked" : "nil";
    const name = group.concept ? group.concept.name : group.ambiguous ? "several concepts" : "no concept";
    return make("span", {
      class: ["mention", state, ...qualifiers.map((one) => `says-${one}`), group.decision, fits ? "" : "off"].filter(Boolean).join(" "),
      "data-signs": qualifiers.map((one) => SIGNS[one]).join("") || undefined,
      "data-number": group.number, role: "button", tabindex: fits ? "0" : "-1", "aria-controls": "card",
      "aria-expanded": String(group.number === this.current),
      title: visible([name, SPOKEN[group.decision], ...qualifiers.map((one) => QUALIFIER_NAMES[one])].join(" · ")),
      click: () => { if (getSelection().isCollapsed) this.#choose(group.number); },
      keydown: (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        this.#choose(group.number);
      },
    }, this.#node(group.start, group.end), ...(MARK[group.decision]
      ? [make("span", { class: "mark", "data-mark": MARK[group.decision], "aria-hidden": "true" })] : []));
  }
}
