// Clusters as the reader has them now: split, merged and decided.

function rowKey(language, term) {
  return language + "\t" + term;
}

// The member that names a group: the wanted term, or the most frequent, then the shortest, then the first by text.
function bestName(members, wanted) {
  let best = null;
  for (const member of members) {
    if (member.term === wanted) return wanted;
    const order = best && (best.frequency - member.frequency || member.term.length - best.term.length);
    if (!best || order < 0 || (order === 0 && member.term < best.term)) best = member;
  }
  return best.term;
}

class ClusterModel extends Model {
  // Where a neighbour's term is now; undefined where the page does not hold it.
  find(neighbour) {
    const member = this.origins.get(neighbour.cluster)?.members.find((one) => one.term === neighbour.term);
    return member && this.groups.get(member.group);
  }

  // Null where the broader term was rejected, is a member of the group itself, or is not in the page.
  broader(group) {
    const other = group.broader && this.find(group.broader);
    return !other || other === group || other.decision === REJECT ? null : other;
  }

  accept(group) {
    if (group.ambiguous) return `Not accepted: “${group.name}” is a name of several concepts. Choose one.`;
    if (!group.concept) {
      for (const other of this.groups.values()) {
        if (other !== group && other.decision === ACCEPT && other.id === group.id) {
          return `Not accepted: “${other.name}” was accepted with the same new id. Merge the two.`;
        }
      }
    }
    this.commit(`accept “${group.name}”`, [group.with({ decision: ACCEPT })]);
    return "";
  }

  // Rejects the ticked members, or all where none is ticked.
  reject(group, ticked) {
    const [rest, moved] = this.#parts(group, ticked);
    if (!moved.length || !rest.length) {
      this.commit(`reject “${group.name}”`, [group.with({ decision: REJECT })]);
    } else {
      const [left, out] = this.#cut(group, rest, moved);
      this.commit(`reject ${moved.length} of “${group.name}”`, [left, out.with({ decision: REJECT })]);
    }
  }

  split(group, ticked) {
    const [rest, moved] = this.#parts(group, ticked);
    if (!moved.length) return "Tick the members to move first.";
    if (!rest.length) return "Leave at least one member where it is.";
    this.commit(`split “${group.name}”`, this.#cut(group, rest, moved));
    return "";
  }

  // Brings the members of another cluster into this one.
  merge(group, other) {
    const members = [...group.members, ...other.members];
    const nearest = new Map([...group.nearest, ...other.nearest].map((one) => [one.concept_id, one]));
    const merged = group.with({
      members,
      concept: group.concept ?? other.concept,
      score: group.concept || !other.concept ? group.score : other.score,
      parent: group.parent || other.parent,
      nearest: [...nearest.values()].sort((a, b) => b.score - a.score),
      neighbours: [...group.neighbours, ...other.neighbours].sort((a, b) => b.probability - a.probability),
      // as medlink.curation.applied takes it from the larger of the two
      broader: (other.size > group.size ? other : group).broader,
      doubtful: group.doubtful || other.doubtful,
      ambiguous: !group.concept && !other.concept && (group.ambiguous || other.ambiguous),
      decision: "",
      changed: true,
    });
    this.commit(`merge “${other.name}” into “${group.name}”`, [merged], [other.number]);
  }

  rename(group, term) {
    const concept = group.concept && group.isNew ? { ...group.concept, name: term } : group.concept;
    this.commit(`name “${term}”`, [group.with({ name: term, concept, changed: true })]);
  }

  setParent(group, parent) {
    this.commit(`parent of “${group.name}”`, [group.with({ parent, changed: true })]);
  }

  // The rows of the decisions file.
  rows() {
    const out = [], used = new Set();
    for (const group of [...this.groups.values()].sort((a, b) => a.number - b.number)) {
      const rows = new Map();
      const named = [...group.members].sort((a, b) => (b.term === group.name) - (a.term === group.name));
      for (const member of named) {
        const earlier = this.#rowOf(member);
        used.add(earlier);
        let decision = group.decision;
        // what an earlier file accepted for this id stays accepted until the reader says otherwise
        if (!decision && earlier?.decision === ACCEPT && earlier.id === group.id) decision = ACCEPT;
        if (!decision && (group.changed || earlier)) decision = GROUP;
        if (!decision) continue;
        // so does the id of a group in that file, which need not be the one that its terms would get now
        const id = decision === REJECT ? "" : group.decision || group.changed ? group.id : earlier.id;
        const key = rowKey(member.language, member.term);
        if (!rows.has(key)) rows.set(key, { id, name: member.term, language: member.language, decision });
      }
      const ordered = [...rows.values()].sort((a, b) => (a.decision === GROUP) - (b.decision === GROUP));
      // a concept that somebody accepted before keeps its name, which may be a term that is not here
      const preferred = group.concept ? group.concept.name : ordered[0]?.name;
      ordered.forEach((row, index) => {
        const stays = row.decision !== REJECT;
        row.type = stays && group.isNew && row.name === preferred ? "preferred" : "synonym";
        row.parent = stays && group.isNew && index === 0 ? group.parent : "";
        out.push(row);
      });
    }
    // keep decisions about terms that this page does not show
    return [...this.loaded.rows.filter((row) => !used.has(row)), ...out];
  }

  // Puts the decisions of a file in place of those made so far; the rules are those of medlink.clustering.applied.
  load(rows) {
    // keep decisions about mentions and codes
    const loaded = { rows, byKey: new Map(), byTerm: new Map() };
    for (const row of rows.filter((one) => !one.kind)) {
      loaded.byKey.set(rowKey(row.language, row.name), row);
      if (!loaded.byTerm.has(row.name)) loaded.byTerm.set(row.name, []);
      loaded.byTerm.get(row.name).push(row);
    }
    const before = this.loaded;
    this.loaded = loaded;
    const next = new Map(), pieces = new Map(), rejected = [];
    for (const group of this.initial) {
      const own = group.members.map((member) => this.#rowOf(member));
      if (!own.some(Boolean)) {
        next.set(group.number, group);
        continue;
      }
      const out = group.members.filter((_, index) => own[index]?.decision === REJECT);
      if (out.length) rejected.push([group, out]);
      for (const [id, members] of this.#parted(group, own)) {
        if (!id) next.set(group.number, group.with({ members, name: bestName(members, group.name) }));
        else if (pieces.has(id)) pieces.get(id).push([group, members]);
        else pieces.set(id, [[group, members]]);
      }
    }
    for (const [id, parts] of pieces) {
      const group = this.#together(id, parts, rows.filter((row) => !row.kind));
      const free = parts.find(([one]) => !next.has(one.number));
      const number = free ? free[0].number : ++this.last;
      next.set(number, group.with({ number }));
    }
    for (const [group, members] of rejected) {
      const number = next.has(group.number) ? ++this.last : group.number;
      const name = bestName(members, group.name);
      next.set(number, group.with({ number, members, name, decision: REJECT, changed: true }));
    }
    const gone = [...this.groups.keys()].filter((number) => !next.has(number));
    const changed = [...next.values()].filter((group) => this.groups.get(group.number) !== group);
    this.commit("load decisions", changed, gone, before);
  }

  #rowOf(member) {
    const { byKey, byTerm } = this.loaded;
    const exact = byKey.get(rowKey(member.language, member.term));
    if (exact) return exact;
    const rows = byTerm.get(member.term);
    const same = rows?.every((row) => row.id === rows[0].id && row.decision === rows[0].decision);
    return same ? rows[0] : undefined;
  }

  // Members by the id they belong to; a term without a decision follows the one it was joined to.
  #parted(group, own) {
    const ids = new Map(), joined = new Map(), votes = new Map(), parts = new Map();
    group.members.forEach((member, index) => {
      joined.set(member.term, member.joined_to);
      if (own[index] && own[index].decision !== REJECT) ids.set(member.term, own[index].id);
    });
    for (const id of ids.values()) votes.set(id, (votes.get(id) ?? 0) + 1);
    const [majority] = [...votes].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1))[0] ?? [""];
    group.members.forEach((member, index) => {
      if (own[index]?.decision === REJECT) return;
      let at = member.term;
      const seen = new Set([""]);
      while (!own[index] && !seen.has(at) && !ids.has(at)) {
        seen.add(at);
        at = joined.get(at) ?? "";
      }
      const id = own[index] ? own[index].id : ids.get(at) ?? majority;
      if (!parts.has(id)) parts.set(id, []);
      parts.get(id).push(member);
    });
    return parts;
  }

  #together(id, parts, rows) {
    const members = parts.flatMap(([, some]) => some);
    const home = parts.reduce((best, part) => (part[1].length > best[1].length ? part : best))[0];
    const own = members.map((member) => this.#rowOf(member));
    const given = rows.filter((row) => row.id === id);
    const named = given.find((row) => row.type === "preferred")?.name;
    const name = bestName(members, members.some((member) => member.term === named) ? named : home.name);
    const isNew = id.startsWith(NEW_ID);
    const accepted = given.some((row) => row.decision === ACCEPT);
    const source = [home, ...parts.map(([group]) => group)].find((group) => group.concept?.id === id)?.concept;
    const near = parts.flatMap(([group]) => group.nearest).find((one) => one.concept_id === id);
    let concept = source ?? { id, name: isNew ? named ?? name : near?.preferred_name ?? "", score: near?.score ?? null };
    // the id of a group that nobody accepted follows its terms
    if (isNew && !accepted) concept = null;
    const all = own.every((row) => row?.decision === ACCEPT);
    return home.with({
      members,
      name,
      concept,
      parent: given.find((row) => row.parent)?.parent ?? "",
      neighbours: parts.flatMap(([group]) => group.neighbours).sort((a, b) => b.probability - a.probability),
      doubtful: !all && parts.some(([group]) => group.doubtful),
      ambiguous: !concept && home.ambiguous,
      decision: all ? ACCEPT : "",
      grouped: own.some((row) => row?.decision === GROUP),
    });
  }

  // Rows of the same term and language go together, for the file can hold one decision about them.
  #parts(group, ticked) {
    const keys = new Set([...ticked].map((member) => rowKey(member.language, member.term)));
    const rest = [], moved = [];
    for (const member of group.members) (keys.has(rowKey(member.language, member.term)) ? moved : rest).push(member);
    return [rest, moved];
  }

  #cut(group, rest, moved) {
    const left = { members: rest, name: bestName(rest, group.name), decision: "", changed: true };
    return [group.with(left), group.with({
      number: ++this.last, members: moved, name: bestName(moved, ""), concept: null, parent: "",
      nearest: withConcept(group.nearest, group.concept), doubtful: false, decision: "", changed: true,
    })];
  }
}
