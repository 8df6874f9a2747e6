// The list of clusters or codes at the left: filtered, sorted, with only the visible rows drawn.

const STATUS = {
  all: () => true,
  known: (group) => group.concept !== null,
  ambiguous: (group) => group.ambiguous,
  new: (group) => group.concept === null && !group.ambiguous,
  doubtful: (group) => group.doubtful,
};
const DECISION = {
  all: () => true,
  undecided: (group) => !group.decision,
  accepted: (group) => group.decision === ACCEPT || group.decision === NONE,
  rejected: (group) => group.decision === REJECT,
  changed: (group) => group.changed || group.grouped,
};
const score = (group) => group.score ?? 0;
const ORDER = {
  tree: (a, b) => b.size - a.size,
  size: (a, b) => b.size - a.size,
  frequency: (a, b) => b.frequency - a.frequency,
  doubt: (a, b) => b.doubtful - a.doubtful || a.weakest - b.weakest || score(a) - score(b),
  low: (a, b) => score(a) - score(b),
  high: (a, b) => score(b) - score(a),
  name: (a, b) => COLLATOR.compare(a.name, b.name),
  place: () => 0,
};
// one collator for all comparisons: making one for each takes seconds on a long list
const COLLATOR = new Intl.Collator(undefined, { sensitivity: "base", numeric: true });
const SPARE_ROWS = 8;

// The depth of each group that matches the filters, by its number, in the selected order.
function matching(model, { status, decision, size: [least, most], words, order, below, language, type, qualifiers }) {
  const found = [];
  for (const group of model.groups.values()) {
    if (STATUS[status](group) && DECISION[decision](group) && group.size >= least && group.size <= most
      && score(group) < below && (!language || group.members.some((member) => member.language === language))
      && (!type || group.types?.includes(type)) && (!qualifiers || (group.qualifiers !== undefined && hasQualifier(group, qualifiers)))
      && words.every((word) => group.text.includes(word))) found.push(group);
  }
  found.sort((a, b) => ORDER[order](a, b) || (model.before ? model.before(a, b) : a.number - b.number));
  return order === "tree" ? tree(model, found) : new Map(found.map((group) => [group.number, 0]));
}

// The depth of each group by its number: narrower groups follow the group above them.
function tree(model, found) {
  const narrower = new Map(found.map((group) => [group, []])), depths = new Map(), top = [];
  for (const group of found) (narrower.get(model.broader(group)) ?? top).push(group);
  // merged groups can be in a circle, which has no top
  for (const first of [...top, ...found]) {
    const waiting = [[first, 0]];
    while (waiting.length) {
      const [group, depth] = waiting.pop();
      if (depths.has(group.number)) continue;
      depths.set(group.number, depth);
      waiting.push(...narrower.get(group).map((below) => [below, depth + 1]).reverse());
    }
  }
  return depths;
}

class List {
  #box;
  #inside;
  #model;
  #choose;
  #row;
  #depths = new Map();

  // choose is called with the number of a cluster when the reader picks it.
  constructor(box, model, choose) {
    this.#box = box;
    this.#model = model;
    this.#choose = choose;
    this.#inside = make("div", { class: "rows", role: "presentation" });
    box.replaceChildren(this.#inside);
    this.#row = Number.parseFloat(getComputedStyle(box).getPropertyValue("--row"));
    this.numbers = [];
    this.current = null;
    box.addEventListener("scroll", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(box);
    box.addEventListener("click", (event) => {
      const row = event.target.closest("[data-number]");
      if (row) this.#choose(Number(row.dataset.number));
    });
  }

  // Applies the filters; the selection stays if it is still visible.
  filter(wanted) {
    this.#depths = matching(this.#model, wanted);
    this.numbers = [...this.#depths.keys()];
    this.#inside.style.height = `${this.numbers.length * this.#row}px`;
    this.draw();
  }

  get index() {
    return this.numbers.indexOf(this.current);
  }

  // The number of rows that a page key moves over.
  get visible() {
    return Math.max(1, Math.floor(this.#box.clientHeight / this.#row) - 1);
  }

  select(number) {
    this.current = number;
    const index = this.index;
    if (index >= 0) {
      const top = index * this.#row, bottom = top + this.#row;
      if (top < this.#box.scrollTop) this.#box.scrollTop = top;
      else if (bottom > this.#box.scrollTop + this.#box.clientHeight) this.#box.scrollTop = bottom - this.#box.clientHeight;
    }
    this.draw();
  }

  draw() {
    const first = Math.max(0, Math.floor(this.#box.scrollTop / this.#row) - SPARE_ROWS);
    const count = Math.ceil(this.#box.clientHeight / this.#row) + 2 * SPARE_ROWS;
    const rows = this.numbers.slice(first, first + count).map((number, offset) => {
      const group = this.#model.groups.get(number);
      const row = make(
        "div",
        {
          class: `row ${group.decision}`, role: "option", id: `row-${number}`, "data-number": number,
          "aria-selected": String(number === this.current), "aria-posinset": first + offset + 1,
          "aria-setsize": this.numbers.length,
        },
        make("span", { class: "mark", "aria-hidden": "true" }, MARK[group.decision]),
        make("bdi", { class: "term" }, visible(group.name)),
        group.kind === "code"
          ? make("span", { class: "size", title: `seen ${group.frequency} times` }, group.frequency.toLocaleString("en"))
          : make("span", { class: "size", title: `${group.size} terms` }, String(group.size)),
        make("span", { class: "about" }, ...about(group, this.#model.broader(group))),
      );
      row.style.setProperty("--depth", this.#depths.get(number));
      row.style.transform = `translateY(${(first + offset) * this.#row}px)`;
      return row;
    });
    this.#inside.replaceChildren(...rows);
    if (this.index >= 0) this.#box.setAttribute("aria-activedescendant", `row-${this.current}`);
    else this.#box.removeAttribute("aria-activedescendant");
  }
}

const MARK = { "": "", [ACCEPT]: "✓", [NONE]: "∅", [REJECT]: "✗" };
const SPOKEN = { "": "undecided", [ACCEPT]: "accepted", [NONE]: "no concept", [REJECT]: "rejected" };

// The second line of a row; broader is the group than which this one is narrower, or null.
function about(group, broader) {
  const parts = [];
  if (group.doubtful) parts.push(make("span", { class: "badge doubtful" }, "doubtful"));
  if (group.concept) parts.push(make("bdi", {}, visible(group.concept.name || group.concept.id)));
  else parts.push(group.ambiguous ? badge("ambiguous") : badge("new", group.item === undefined ? "new" : "no concept"));
  if (group.score !== null) parts.push(make("span", { class: "number" }, group.score.toFixed(2)));
  if (broader) parts.push(make("span", { class: "below" }, "below ", make("bdi", {}, visible(broader.name))));
  if (group.decision) parts.push(make("span", { class: "spoken" }, SPOKEN[group.decision]));
  return parts;
}
