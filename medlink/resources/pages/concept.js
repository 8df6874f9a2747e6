// The facts of a knowledge base about a concept.

const LANGUAGES = new Intl.DisplayNames("en", { type: "language", fallback: "none" });

function languageName(tag) {
  try {
    return LANGUAGES.of(tag) ?? tag;
  } catch {
    return tag || "no language"; // a source may have an invalid tag
  }
}

// Definitions, rows of the caller, parents, and names by language.
function aboutConcept(concept, rows) {
  const all = [
    ...rows,
    ["is a", visible(concept?.parents.join(", ") ?? "")],
    ...(concept?.names ?? []).map(([tag, names, more]) => [languageName(tag), conceptNames(names, more)]),
  ];
  return [
    ...(concept?.definitions ?? []).map((text) => make("p", { class: "definition" }, visible(text))),
    make("dl", { class: "known-of" }, ...all.filter(([, value]) => value).flatMap(
      ([name, value]) => [make("dt", {}, name), make("dd", {}, value)])),
  ];
}

function conceptNames([preferred, ...others], more) {
  const rest = [...others, ...(more ? [`and ${more} more`] : [])];
  const first = make("bdi", { class: "preferred" }, visible(preferred));
  return make("span", {}, first, ...rest.flatMap((name) => [" · ", make("bdi", {}, visible(name))]));
}
