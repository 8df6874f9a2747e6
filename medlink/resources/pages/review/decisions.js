// The decisions file: a TSV with one decision in each row.

// The white space of Python, which differs from that of JavaScript.
const SPACE = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/;
// Not allowed in an id: white space, the separator of parents, and invisible characters.
const NO_ID = /[|\p{Z}\p{Cc}\p{Cf}\p{Cs}]/u;
const COLUMNS = ["id", "name", "language", "type", "parent", "decision"];
// Where a name occurs; a file of terms only does not have these columns.
const PLACE = ["kind", "item", "start", "end", "section", "proposed"];
const WORDS = { "": [ACCEPT, GROUP, REJECT], mention: [ACCEPT, NONE, REJECT], code: [ACCEPT, NONE, REJECT], note: [DONE] };

// A cell that a spreadsheet or a CSV reader would not take as it is, a formula or a quote, stands behind an apostrophe:
// medlink.files.escapes.
const asCell = (text) => (/^[=+\-@"']/.test(text) ? `'${text}` : text);
const fromCell = (cell) => (/^'[=+\-@"']/.test(cell) ? cell.slice(1) : cell);

function writeDecisions(rows) {
  const columns = rows.some((row) => row.kind) ? [...COLUMNS, ...PLACE] : COLUMNS;
  const cell = (row, column) => (column === "name" || column === "item" ? asCell(row[column] ?? "") : row[column] ?? "");
  const lines = [columns, ...rows.map((row) => columns.map((column) => cell(row, column)))];
  return lines.map((cells) => cells.join("\t") + "\n").join("");
}

// Reads what writeDecisions wrote, or a hand-edited form of it; the errors are those of medlink.kb.decision_table.
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
  const columns = PLACE.some((column) => header.includes(column)) ? [...COLUMNS, ...PLACE] : COLUMNS;
  const missing = columns.filter((column) => !header.includes(column));
  if (missing.length) fail(1, `the column ${missing[0]} is missing.`);
  const twice = columns.filter((column) => header.indexOf(column) !== header.lastIndexOf(column));
  if (twice.length) fail(1, `the column ${twice[0]} occurs twice. Leave one of them.`);
  if (header.includes("concept_id")) fail(1, "there are the columns id and concept_id. Leave id and take off the other.");
  const rows = [], seen = new Map(), named = new Map();
  for (let index = 1; index < lines.length; index += 1) {
    if (!lines[index]) continue;
    const line = index + 1;
    const cells = lines[index].split("\t");
    if (cells.length !== header.length) fail(line, `${cells.length} columns, ${header.length} expected.`);
    const row = Object.fromEntries(columns.map((column) => [column, cells[header.indexOf(column)].trim()]));
    row.name = fromCell(row.name).split(SPACE).join(" ");
    const words = WORDS[row.kind ?? ""];
    if (!words) fail(line, "unknown word in the column kind. Use mention, code or note, or leave it empty.");
    if (!words.includes(row.decision)) {
      fail(line, `unknown word in the column decision. Use ${words.slice(0, -1).join(", ")}${words[1] ? " or " : ""}${words.at(-1)}.`);
    }
    if (!row.name && row.kind !== "note") fail(line, "there is no name.");
    if (row.kind) {
      row.item = fromCell(row.item);
      if (!row.item) fail(line, "there is no item.");
      if (row.kind === "mention") {
        if (![row.start, row.end].every((one) => /^[0-9]{1,9}$/.test(one)) || Number(row.start) >= Number(row.end)) {
          fail(line, "start and end are not a place in the note.");
        }
        [row.start, row.end] = [Number(row.start), Number(row.end)];
      }
    }
    if (![ACCEPT, GROUP].includes(row.decision)) row.id = row.parent = "";
    else if (!row.id) fail(line, "there is no id.");
    else if (NO_ID.test(row.id)) fail(line, "the id has a blank, | or an invisible character.");
    else if (row.parent.split("|").some((id) => NO_ID.test(id.trim()))) fail(line, "the parent is not an id.");
    else if (!["preferred", "synonym"].includes(row.type)) {
      fail(line, "unknown word in the column type. Use preferred or synonym.");
    }
    row.language = row.language.toLowerCase();
    const key = row.kind ? placeKey(row) : rowKey(row.language, row.name);
    const first = seen.get(key);
    if (first && (first.row.id !== row.id || first.row.decision !== row.decision)) {
      fail(line, `this ${row.kind ? "place" : "term"} is decided otherwise in line ${first.line}. Keep one of the two rows.`);
    }
    if (first) continue;
    if (row.id && !row.kind && row.type === "preferred") {
      const name = row.id + "\t" + row.language;
      if (named.has(name)) fail(line, `the preferred term of this id and language is in line ${named.get(name)}.`);
      named.set(name, line);
    }
    seen.set(key, { row, line });
    rows.push(row);
  }
  return rows;
}
