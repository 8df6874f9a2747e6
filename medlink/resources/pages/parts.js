// Small parts that all pages use.

// A row of the data as an object; the data names the fields once.
function record(fields, row) {
  const object = {};
  fields.forEach((field, index) => { object[field] = row[index]; });
  return object;
}

// The data of the page; its source text, which is large, is freed.
function takeData() {
  const source = document.getElementById("data");
  source.remove();
  return JSON.parse(source.textContent);
}

function quoted(term) {
  return make("bdi", { class: "quoted" }, visible(term));
}

function badge(kind, text = kind) {
  return make("span", { class: `badge ${kind}` }, text);
}

// A score as a number with a bar behind it.
function scoreBar(value) {
  if (value === null) return make("span", { class: "number" }, "–");
  const bar = make("span", { class: "score-bar number" }, value.toFixed(2));
  bar.style.setProperty("--share", `${Math.max(0, Math.min(1, value)) * 100}%`);
  return bar;
}

function count(number, one, many) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}
