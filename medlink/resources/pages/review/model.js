// What there is to review, as the reader has it now: clusters, mentions of notes, or codes of a list.
// Nothing here touches the document.

const ACCEPT = "accept", GROUP = "group", NONE = "none", REJECT = "reject", DONE = "done";
const NEW_ID = "NEW:";

// Lower case without accents, so that a search for "nino" finds "Niño".
function fold(text) {
  return text.toLowerCase().replaceAll("ß", "ss").normalize("NFD").replace(/\p{M}+/gu, "");
}

// One cluster, mention or code. It is never changed, only replaced, which is what makes undo a matter of putting the old one back.
class Group {
  #newId = null;
  #text = null;

  constructor(fields) {
    Object.assign(this, fields);
    this.size = this.members.length;
    this.frequency = 0;
    this.weakest = 1;
    for (const member of this.members) {
      this.frequency += member.frequency;
      if (member.joined_score !== null) this.weakest = Math.min(this.weakest, member.joined_score);
    }
  }

  with(fields) {
    return new Group({ ...this, ...fields });
  }

  // The id of a new concept of these terms: the exclusive or of the distinct hashes, so their order does not count.
  get newId() {
    if (this.#newId === null) {
      let sum = 0n;
      for (const hash of new Set(this.members.map((member) => member.hash))) sum ^= BigInt("0x" + hash);
      this.#newId = NEW_ID + sum.toString(16).padStart(16, "0");
    }
    return this.#newId;
  }

  get id() {
    // what is no cluster is no new concept
    if (!this.concept) return this.item === undefined ? this.newId : "";
    return this.concept.id;
  }

  get isNew() {
    return this.id.startsWith(NEW_ID);
  }

  // What a search looks at.
  get text() {
    if (this.#text === null) {
      const parts = this.members.map((member) => (member.id ? member.term + "\n" + member.id : member.term));
      if (this.concept) parts.push(this.concept.id, this.concept.name);
      this.#text = fold(parts.join("\n"));
    }
    return this.#text;
  }
}

// The concepts offered for a group, together with the one it has, so that a reader can go back to it.
function withConcept(nearest, concept) {
  if (!concept || nearest.some((one) => one.concept_id === concept.id)) return nearest;
  const { id, name, score, source = "", same = [] } = concept;
  return [{ concept_id: id, preferred_name: name, score, source, same_as: same }, ...nearest];
}

// What clusters and places have in common: changes, each of which can be undone.
class Model {
  initial = [];
  #history = [];
  last = 0;
  loaded = { rows: [], byKey: new Map(), byTerm: new Map() };
  #saved = null;
  // ids of the notes of which all is annotated
  done = new Set();

  constructor(data) {
    this.groups = new Map();
    this.decided = 0;
    const { fields } = data;
    this.kind = data.kind;
    this.least = data.least;
    this.maybe = data.maybe;
    this.names = new Map();
    for (const row of data.clusters) {
      const cluster = record(fields.cluster, row);
      const members = cluster.members.map((one) => record(fields.member, one));
      for (const member of members) member.group = cluster.cluster;
      const nearest = cluster.nearest.map((one) => record(fields.nearest, one));
      const concept = cluster.concept_id === null
        ? null : { id: cluster.concept_id, name: cluster.concept_name, score: cluster.score };
      for (const one of nearest) this.names.set(one.concept_id, one.preferred_name);
      if (concept) this.names.set(concept.id, concept.name);
      if (cluster.parent_id) this.names.set(cluster.parent_id, cluster.parent_name);
      const group = new Group({
        number: cluster.cluster,
        name: cluster.representative,
        members,
        concept,
        score: cluster.score,
        parent: cluster.parent_id ?? "",
        nearest,
        neighbours: cluster.neighbours.map((one) => record(fields.neighbour, one)),
        // a neighbour than which the terms are narrower
        broader: cluster.broader && record(fields.neighbour, cluster.broader),
        doubtful: cluster.doubtful,
        // the terms are a name of several concepts, and the reader has not said which is meant
        ambiguous: cluster.status === "ambiguous",
        decision: "",
        // by the reader in this page, and in a file that was loaded
        changed: false,
        grouped: false,
        ...this.more(cluster, members),
      });
      this.initial.push(group);
      this.groups.set(group.number, group);
      this.last = Math.max(this.last, group.number);
    }
    this.origins = new Map(this.initial.map((group) => [group.number, group]));
  }

  // Further fields of a group.
  more() {
    return {};
  }

  // The group than which one is narrower; only clusters have one.
  broader() {
    return null;
  }

  // What was done so far is where the reader begins: nothing of it is undone, and nothing is to be saved.
  begin() {
    this.#history = [];
    this.#saved = null;
  }

  // What the page calls one of its groups.
  get noun() {
    return "cluster";
  }

  get undoable() {
    return this.#history.length > 0;
  }

  get unsaved() {
    return (this.#history.at(-1) ?? null) !== this.#saved;
  }

  saved() {
    this.#saved = this.#history.at(-1) ?? null;
  }

  reopen(group) {
    this.commit(`reopen “${group.name}”`, [group.with({ decision: "", changed: true })]);
  }

  // Null is a new concept. Whether its id is taken is asked when it is accepted, so that must be done again.
  setConcept(group, concept) {
    const fields = { concept, nearest: withConcept(group.nearest, group.concept), ambiguous: false, decision: "", changed: true };
    this.commit(`concept of “${group.name}”`, [group.with(fields)]);
  }

  // Takes the last change back and gives it, or null where there is none.
  undo() {
    const change = this.#history.pop();
    if (!change) return null;
    this.#put(change.before);
    this.loaded = change.loaded;
    this.done = change.done;
    return change;
  }

  // Puts groups in the place of those with their numbers and takes some away; loaded and done are what undo goes back to.
  commit(label, after, gone = [], loaded = this.loaded, done = this.done) {
    const before = new Map();
    for (const group of after) before.set(group.number, this.groups.get(group.number) ?? null);
    for (const number of gone) before.set(number, this.groups.get(number));
    this.#history.push({ label, before, loaded, done });
    this.#put(new Map([...gone.map((number) => [number, null]), ...after.map((group) => [group.number, group])]));
  }

  #put(groups) {
    for (const [number, group] of groups) {
      if (this.groups.get(number)?.decision) this.decided -= 1;
      if (!group) {
        this.groups.delete(number);
        continue;
      }
      if (group.decision) this.decided += 1;
      this.groups.set(number, group);
      for (const member of group.members) member.group = number;
    }
  }
}
