// Picking the cluster to merge with.

const FOUND_AT_ONCE = 30;

class MergeDialog {
  #box;
  #model;
  #search;
  #found;
  #group = null;
  #pick;

  // pick is called with the number of the cluster to bring in.
  constructor(box, model, pick) {
    this.#box = box;
    this.#model = model;
    this.#pick = pick;
    this.#search = box.querySelector("input");
    this.#found = box.querySelector("ul");
    this.#search.addEventListener("input", () => this.#draw());
    this.#search.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      this.#found.querySelector("button")?.click();
    });
    box.querySelector(".close").addEventListener("click", () => box.close());
  }

  open(group) {
    this.#group = group;
    this.#search.value = "";
    this.#draw();
    this.#box.showModal();
    this.#search.focus();
  }

  // Without words to search for the neighbours, nearest first.
  #candidates(words) {
    const found = new Set();
    if (!words.length) {
      for (const neighbour of this.#group.neighbours) {
        const other = this.#model.find(neighbour);
        if (other && other !== this.#group) found.add(other);
      }
      return [...found];
    }
    for (const group of this.#model.groups.values()) {
      if (group !== this.#group && words.every((word) => group.text.includes(word))) found.add(group);
    }
    return [...found].sort((a, b) => b.frequency - a.frequency || a.number - b.number);
  }

  // The term that was found, where it is not the one shown.
  #match(group, words) {
    const fits = (term) => words.every((word) => fold(term).includes(word));
    const found = fits(group.name) ? undefined : group.members.find((member) => fits(member.term));
    return found ? [make("span", { class: "about" }, "with ", quoted(found.term))] : [];
  }

  #draw() {
    const words = fold(this.#search.value).split(/\s+/).filter(Boolean);
    const all = this.#candidates(words);
    const items = all.slice(0, FOUND_AT_ONCE).map((group) => make("li", {}, make(
      "button", { type: "button", click: () => { this.#box.close(); this.#pick(group.number); } },
      make("bdi", { class: "term" }, visible(group.name)),
      make("span", { class: "about" }, `${group.size} · `, ...about(group)),
      ...this.#match(group, words),
    )));
    if (!items.length) items.push(make("li", { class: "faint" }, "Nothing found."));
    if (all.length > items.length) items.push(make("li", { class: "faint" }, `and ${all.length - items.length} more`));
    this.#found.replaceChildren(...items);
  }
}
