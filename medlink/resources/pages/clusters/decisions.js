// The decisions file: a TSV with one term in each row.

// What medlink takes for white space; that of JavaScript is not the same.
const SPACE = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/;
// What an id may not hold: white space, the mark between two parents, and what has no look of its own.
const NO_ID = /[|\p{Z}\p{Cc}\p{Cf}\p{Cs}]/u;
const COLUMNS = ["id", "name", "language", "type", "parent", "decision"];

// A cell that a spreadsheet or a CSV reader would not take as it is, a formula or a quote, stands behind an apostrophe:
// medlink.files.escapes.
const asCell = (text) => (/^[=+\-@"']/.test(text) ? `'${text}` : text);
const fromCell = (cell) => (/^'[=+\-@"']/.test(cell) ? cell.slice(1) : cell);

function writeDecisions(rows) {
  const lines = [COLUMNS, ...rows.map((row) => COLUMNS.map((column) => column === "name" ? asCell(row.name) : row[column]))];
  return lines.map((cells) => cells.join("\t") + "\n").join("");
}

// Reads what writeDecisions wrote, or a hand-edited form of it; the errors are those of medlink.clustering.decisions.
function readDecisions(bytes, file) {
  const fail = (line, text) => { throw new Error(`${file}:${line}: ${text}`); };
  let text = "";
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new Error(`${file}: is not UTF-8. Save it as UTF-8.`);
  }
  const lines = text.split("\n").map((line) => line.replace(/\r$/, ""));
  const header = lines[0].split("\t").map((cell) => cell.trim());
  const missing = COLUMNS.filter((column) => !header.includes(column));
  if (missing.length) fail(1, `the column ${missing[0]} is missing.`);
  const twice = COLUMNS.filter((column) => header.indexOf(column) !== header.lastIndexOf(column));
  if (twice.length) fail(1, `the column ${twice[0]} is there twice. Leave one of them.`);
  if (header.includes("concept_id")) fail(1, "there are the columns id and concept_id. Leave id and take off the other.");
  const rows = [], seen = new Map(), named = new Map();
  for (let index = 1; index < lines.length; index += 1) {
    if (!lines[index]) continue;
    const line = index + 1;
    const cells = lines[index].split("\t");
    if (cells.length !== header.length) fail(line, `${cells.length} columns, ${header.length} expected.`);
    const row = Object.fromEntries(COLUMNS.map((column) => [column, cells[header.indexOf(column)].trim()]));
    row.name = fromCell(row.name).split(SPACE).join(" ");
    if (![ACCEPT, GROUP, REJECT].includes(row.decision)) {
      fail(line, `unknown word in the column decision. Use ${ACCEPT}, ${GROUP} or ${REJECT}.`);
    }
    if (!row.name) fail(line, "there is no name.");
    if (row.decision === REJECT) row.id = row.parent = "";
    else if (!row.id) fail(line, "there is no id.");
    else if (NO_ID.test(row.id)) fail(line, "the id has a blank, | or an invisible character.");
    else if (row.parent.split("|").some((id) => NO_ID.test(id.trim()))) fail(line, "the parent is no id.");
    else if (!["preferred", "synonym"].includes(row.type)) {
      fail(line, "unknown word in the column type. Use preferred or synonym.");
    }
    row.language = row.language.toLowerCase();
    const key = row.language + "\t" + row.name;
    const first = seen.get(key);
    if (first && (first.row.id !== row.id || first.row.decision !== row.decision)) {
      fail(line, `this term is decided otherwise in line ${first.line}. Keep one of the two rows.`);
    }
    if (first) continue;
    if (row.id && row.type === "preferred") {
      const name = row.id + "\t" + row.language;
      if (named.has(name)) fail(line, `the preferred term of this id and language is in line ${named.get(name)}.`);
      named.set(name, line);
    }
    seen.set(key, { row, line });
    rows.push(row);
  }
  return rows;
}
