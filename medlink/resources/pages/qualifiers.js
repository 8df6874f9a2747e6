// The text of a note, and the qualifiers of its mentions.

// a sign marks each qualifier, because colours alone are not accessible
const QUALIFIER_NAMES = {
  present: "present", absent: "absent", uncertain: "uncertain", historical: "historical", hypothetical: "hypothetical",
  family: "family member", other: "other person",
};
const SIGNS = { absent: "−", uncertain: "?", historical: "«", hypothetical: "»", family: "F", other: "O" };

// Keeps line ends and tabs; other control characters become visible symbols.
function noteText(text) {
  return text.replaceAll("\r\n", "\n").replace(/[^\n\t]+/g, visible);
}

// Whether a mention has a qualifier; without any other value it is present.
function hasQualifier(mention, value) {
  return mention.qualifiers !== null && (value === "present" ? !mention.qualifiers.length : mention.qualifiers.includes(value));
}

// The qualifiers of a mention as badges; none if they were not read.
function qualifierBadges(mention, usual) {
  const qualifiers = mention.qualifiers === null ? [] : mention.qualifiers.length || !usual ? mention.qualifiers : ["present"];
  return qualifiers.map((value) => badge(`says-${value}`, SIGNS[value] ? `${SIGNS[value]} ${QUALIFIER_NAMES[value]}` : QUALIFIER_NAMES[value]));
}

function oneLine(text) {
  return text.split(/\s+/).join(" ");
}

function sectionName(kind) {
  return kind.replaceAll("_", " ");
}
