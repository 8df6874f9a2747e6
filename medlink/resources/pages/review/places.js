// Mentions and codes with their decisions: each is decided separately.

function placeKey({ kind, item, start, end, name }) {
  return [kind, item, start ?? "", end ?? "", kind === "code" ? name : ""].join("\t");
}

class PlaceModel extends Model {
  constructor(data) {
    super(data);
    this.notes = data.notes.map((row) => record(data.fields.note, row));
    this.notes.forEach((note, index) => {
      note.index = index;
      note.points = Array.from(note.text);
    });
    this.byItem = new Map(this.notes.map((note) => [note.item, note]));
  }

  more({ item, start, end, section, qualifiers, expanded, types, value, concept_id: proposed }, [{ language }]) {
    return { kind: this.kind, item, start, end, section, qualifiers, expanded, types, value, language, proposed: proposed ?? "" };
  }

  get noun() {
    return this.kind;
  }

  // The mentions of a note in the order of its text.
  of(note) {
    return [...this.groups.values()].filter((group) => group.item === note.item).sort((a, b) => a.start - b.start || a.end - b.end);
  }

  // Mentions in the order of the notes, codes in that of the list.
  before(a, b) {
    if (this.kind !== "mention") return a.number - b.number;
    return this.byItem.get(a.item).index - this.byItem.get(b.item).index || a.start - b.start || a.end - b.end;
  }

  accept(group) {
    if (group.ambiguous) return `Not accepted: “${group.name}” is a name of several concepts. Choose one.`;
    this.commit(`accept “${group.name}”`, [group.with({ decision: group.concept ? ACCEPT : NONE })]);
    return "";
  }

  // Rejecting a mention that the reviewer added removes it.
  reject(group) {
    const label = `reject “${group.name}”`;
    if (group.added) this.commit(label, [], [group.number]);
    else this.commit(label, [group.with({ decision: REJECT })]);
  }

  // Adds a missed mention; returns it, or a message on why it cannot be added.
  add(note, start, end, concept = null, decision = "") {
    const across = this.of(note).find((group) => group.start < end && start < group.end && group.decision !== REJECT);
    if (across) return `Not added: it overlaps “${across.name}”. Reject that first.`;
    const group = this.#added(note, start, end, concept, decision);
    this.commit(`add “${group.name}”`, [group]);
    return group;
  }

  #added(note, start, end, concept, decision) {
    const name = note.points.slice(start, end).join("").split(SPACE).join(" ").trim();
    return new Group({
      number: ++this.last, name, members: [{ term: name, frequency: 1, language: note.language, id: "", joined_score: null }],
      concept, score: null, parent: "", nearest: [], neighbours: [], broader: null, doubtful: false, ambiguous: false, decision,
      changed: false, grouped: false, added: true, kind: "mention", item: note.item, start, end, section: this.of(note).findLast((one) => one.start < start)?.section ?? "",
      qualifiers: null, expanded: null, types: [], value: "", language: note.language, proposed: "",
    });
  }

  // Marks a note as fully annotated, or unmarks it.
  finish(note) {
    const before = this.done;
    this.done = new Set(before);
    if (!this.done.delete(note.item)) this.done.add(note.item);
    this.commit(`mark “${note.item}”`, [], [], this.loaded, before);
  }

  rows() {
    const out = [], used = new Set();
    for (const group of [...this.groups.values()].sort((a, b) => this.before(a, b))) {
      const key = placeKey(group);
      used.add(key);
      if (!group.decision) continue;
      out.push({
        id: group.decision === ACCEPT ? group.id : "", name: group.name, language: group.language, type: "synonym", parent: "",
        decision: group.decision, kind: group.kind, item: group.item, start: group.start, end: group.end,
        section: group.section, proposed: group.proposed,
      });
    }
    for (const note of this.notes) {
      if (this.done.has(note.item)) out.push({ type: "synonym", decision: DONE, kind: "note", item: note.item });
    }
    // keep decisions about what this page does not show
    const isElsewhere = (row) => (this.byItem.has(row.item) && row.kind !== "code" ? false : !used.has(placeKey(row)));
    return [...this.loaded.rows.filter(isElsewhere), ...out];
  }

  load(rows) {
    const before = this.loaded, done = this.done, next = new Map();
    this.loaded = { rows };
    this.done = new Set(rows.filter((row) => row.kind === "note").map((row) => row.item));
    const found = new Map(this.initial.map((group) => [placeKey(group), group]));
    for (const group of this.initial) next.set(group.number, group);
    for (const row of rows) {
      const note = row.kind === "mention" ? this.byItem.get(row.item) : null;
      const group = found.get(placeKey(row)) ?? (note && this.#added(note, row.start, row.end, null, ""));
      if (!group) continue;
      if (note && group.name !== row.name) throw new Error(`the words at characters ${row.start} to ${row.end} of ${row.item} differ`);
      const near = group.nearest.find((one) => one.concept_id === row.id);
      const same = group.concept?.id === row.id ? group.concept : null;
      const concept = row.id ? same ?? {
        id: row.id, name: near?.preferred_name ?? this.names.get(row.id) ?? row.id, score: near?.score ?? null, source: near?.source ?? "",
      } : row.decision === NONE ? null : group.concept;
      const nearest = withConcept(group.nearest, concept);
      next.set(group.number, group.with({ decision: row.decision, concept, nearest, ambiguous: false }));
    }
    const gone = [...this.groups.keys()].filter((number) => !next.has(number));
    const changed = [...next.values()].filter((group) => this.groups.get(group.number) !== group);
    this.commit("load decisions", changed, gone, before, done);
  }
}
