// The report of an evaluation: a section for each task, its first table with intervals drawn.

function percent(value) {
  return `${Math.max(0, Math.min(1, value)) * 100}%`;
}

// A value with its interval on a line from 0 to 1; one below 0, such as a correlation, is at its end.
function measure([value, low, high, best, worse]) {
  if (value === null) return "–";
  const line = make("span", { class: "interval" });
  if (low === null) line.setAttribute("hidden", "");
  else {
    line.title = `${low.toFixed(3)} to ${high.toFixed(3)}`;
    for (const [name, at] of [["low", low], ["value", value], ["high", high]]) {
      line.style.setProperty(`--${name}`, percent(at));
    }
  }
  const mark = worse ? make("abbr", { title: "worse than the best, p < 0.05" }, "*") : "";
  return make("span", { class: best ? "measure best" : "measure" },
    make("span", { class: "number" }, value.toFixed(3)), line, make("span", {}, mark));
}

function table({ title, header, rows }) {
  const head = make("tr", {}, ...header.map((name) => make("th", { scope: "col" }, visible(name))));
  const body = rows.map((row) => make("tr", {}, ...row.map((cell) =>
    make("td", {}, Array.isArray(cell) ? measure(cell) : visible(cell)))));
  return make("table", {}, make("caption", {}, visible(title)), make("thead", {}, head), make("tbody", {}, ...body));
}

// Further tables are folded away behind the first.
function section({ title, lead, grids }) {
  const [first, ...others] = grids;
  return make("section", {},
    make("h2", {}, visible(title)),
    make("p", { class: "faint" }, visible(lead)),
    ...(first ? [table(first)] : []),
    ...others.map((grid) => make("details", {}, make("summary", {}, visible(grid.title)), table(grid))));
}

document.getElementById("report").append(...takeData().map(section));
