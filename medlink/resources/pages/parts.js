// Small parts that pages have in common.

// A row of the data as an object; the names of its fields stand in the data once.
function record(fields, row) {
  const object = {};
  fields.forEach((field, index) => { object[field] = row[index]; });
  return object;
}

// The data of the page; the text, which is as large as what was read from it, is let go.
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

// A likeness as a number with a bar behind it.
function likeness(value) {
  if (value === null) return make("span", { class: "number" }, "–");
  const bar = make("span", { class: "likeness number" }, value.toFixed(2));
  bar.style.setProperty("--share", `${Math.max(0, Math.min(1, value)) * 100}%`);
  return bar;
}

function count(number, one, many) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}
