// The words of a note, and what it says of its findings.

// what a note says of a finding, and the sign for it: colours are not all that tells them apart
const SAID = {
  present: "present", absent: "absent", uncertain: "uncertain", historical: "historical", hypothetical: "hypothetical",
  family: "of the family", other: "of another person",
};
const SIGNS = { absent: "−", uncertain: "?", historical: "«", hypothetical: "»", family: "F", other: "O" };

// Notes keep their line ends and tabs; other control characters are shown by their pictures.
function noteText(text) {
  return text.replaceAll("\r\n", "\n").replace(/[^\n\t]+/g, visible);
}

// Whether a mention is such a finding; one of which nothing else is said is present.
function says(mention, value) {
  return mention.said !== null && (value === "present" ? !mention.said.length : mention.said.includes(value));
}

// What the note says of a mention, as badges; nothing where it was not read.
function saidBadges(mention, usual) {
  const said = mention.said === null ? [] : mention.said.length || !usual ? mention.said : ["present"];
  return said.map((value) => badge(`says-${value}`, SIGNS[value] ? `${SIGNS[value]} ${SAID[value]}` : SAID[value]));
}

function oneLine(text) {
  return text.split(/\s+/).join(" ");
}

function sectionName(kind) {
  return kind.replaceAll("_", " ");
}
