// Dialogs in which one thing is picked from those that are found.

const FOUND_AT_ONCE = 30;

class Picker {
  #box;
  #search;
  #found;
  #find;
  #asked = 0;
  #waiting = 0;
  #fresh = true;

  // find is given what was typed and gives { items, more }, or a promise of it; an item has content and pick.
  // It is asked after a rest from typing of so many milliseconds.
  constructor(box, find, delay = 0) {
    this.#box = box;
    this.#find = find;
    this.#search = box.querySelector("input");
    this.#found = box.querySelector("ul");
    this.#search.addEventListener("input", () => {
      clearTimeout(this.#waiting);
      this.#fresh = false;
      // pending results belong to an earlier word
      this.#asked += 1;
      if (delay) this.#waiting = setTimeout(() => this.draw(), delay);
      else this.draw();
    });
    this.#search.addEventListener("keydown", async (event) => {
      // the browser would empty the field, and close at the second time
      if (event.key === "Escape") {
        event.preventDefault();
        this.#box.close();
      }
      if (event.key === "ArrowDown") this.#found.querySelector("button")?.focus();
      if (event.key !== "Enter") return;
      event.preventDefault();
      // the results may belong to an earlier word
      if (!this.#fresh) await this.draw();
      this.#found.querySelector("button")?.click();
    });
    this.#found.addEventListener("keydown", (event) => {
      const buttons = [...this.#found.querySelectorAll("button")], by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!by) return;
      event.preventDefault();
      (buttons[buttons.indexOf(document.activeElement) + by] ?? this.#search).focus();
    });
    box.querySelector(".close").addEventListener("click", () => box.close());
  }

  open(text = "") {
    this.#search.value = text;
    this.#box.showModal();
    this.#search.focus();
    this.#search.select();
    return this.draw();
  }

  async draw() {
    clearTimeout(this.#waiting);
    const asked = ++this.#asked;
    let found = this.#find(this.#search.value);
    if (found instanceof Promise) {
      try {
        found = await found;
      } catch (error) {
        found = { items: [], more: 0, problem: error.message };
      }
      // another search began since
      if (asked !== this.#asked) return;
    }
    this.#fresh = true;
    const items = found.items.map(({ content, pick }) => make("li", {}, make(
      "button", { type: "button", click: () => { this.#box.close(); pick(); } }, ...content)));
    if (!items.length) items.push(make("li", { class: "faint" }, found.problem ?? "Nothing found."));
    if (found.more) items.push(make("li", { class: "faint" }, `and ${found.more} more`));
    this.#found.replaceChildren(...items);
  }
}

function wordsOf(text) {
  return fold(text).split(/\s+/).filter(Boolean);
}

// The clusters to merge a group with; without words to search for its neighbours, nearest first.
function mergeable(model, group, text) {
  const words = wordsOf(text), found = new Set();
  const fits = (term) => words.every((word) => fold(term).includes(word));
  for (const neighbour of words.length ? [] : group.neighbours) {
    const other = model.find(neighbour);
    if (other && other !== group) found.add(other);
  }
  for (const other of words.length ? model.groups.values() : []) {
    if (other !== group && words.every((word) => other.text.includes(word))) found.add(other);
  }
  const all = [...found];
  if (words.length) all.sort((a, b) => b.frequency - a.frequency || a.number - b.number);
  // the matching term, if it is not the name
  const term = (other) => (fits(other.name) ? undefined : other.members.find((member) => fits(member.term)));
  const content = (other) => [
    make("bdi", { class: "term" }, visible(other.name)), make("span", { class: "about" }, `${other.size} · `, ...about(other, model.broader(other))),
    ...(term(other) ? [make("span", { class: "about" }, "with ", quoted(term(other).term))] : []),
  ];
  return { items: all.slice(0, FOUND_AT_ONCE).map((other) => ({ content: content(other), other })), more: Math.max(0, all.length - FOUND_AT_ONCE) };
}

// A concept as it is offered in a dialog.
function offered(one) {
  return [
    make("bdi", { class: "term" }, visible(one.preferred_name)),
    make("span", { class: "about" }, make("code", {}, visible(one.concept_id)), visible(one.source ?? ""),
      ...(one.name && one.name !== one.preferred_name ? [quoted(one.name)] : []), ...(one.score === null ? [] : [scoreBar(one.score)])),
  ];
}
