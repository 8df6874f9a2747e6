// Texts whose contrast is below that of WCAG AA.
const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const over = (under, colour) => {
  canvas.fillStyle = `rgb(${under})`; canvas.fillRect(0, 0, 1, 1);
  canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
};
const light = (rgb) => rgb.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
// a bar has the colours of its gradient too
const found = [];
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode()) {
  const at = walk.currentNode.parentElement;
  if (!walk.currentNode.data.trim() || !at.checkVisibility()) continue;
  if (at.closest("script, .spoken, :disabled, :has(> :disabled)")) continue;
  const chain = [];
  for (let one = at; one; one = one.parentElement) chain.unshift(getComputedStyle(one));
  const ground = chain.reduce((under, style) => over(under, style.backgroundColor), [255, 255, 255]);
  const grounds = [ground, ...(chain.at(-1).backgroundImage.match(/rgb[^)]*[)]/g) ?? []).map((one) => over(ground, one))];
  const style = chain.at(-1), large = parseFloat(style.fontSize) >= (style.fontWeight >= 700 ? 18.66 : 24);
  for (const under of grounds) {
    const [a, b] = [light(under), light(over(under, style.color))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) >= (large ? 3 : 4.5)) continue;
    found.push(`${at.className} ${walk.currentNode.data} ${style.color} ${under}`);
  }
}
return found;
