// Making elements. Text from the data only ever becomes text nodes.

// Attributes with the value false or undefined are left out, functions are listeners.
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === undefined) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

// Control characters are invisible: each becomes a symbol. Marks of direction, characters without width and lone
// surrogates become their codes.
function visible(text) {
  return text
    .replace(/[\u0000-\u001f]/g, (mark) => String.fromCharCode(0x2400 + mark.charCodeAt(0)))
    .replace(/[\u007f-\u009f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]|\p{Surrogate}/gu,
      (mark) => `‹U+${mark.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}›`);
}
