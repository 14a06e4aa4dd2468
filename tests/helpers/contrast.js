// The visible texts whose contrast is below 4.5 (WCAG 2.2, 1.4.3): element, class, text, ratio.
// Backgrounds with an alpha are laid over those behind them; a drawing's text stands on what of the
// drawing was filled last where its middle is.
(() => {
  const parse = (text) => {
    const numbers = text.match(/-?[\d.]+(e-?\d+)?/g).map(Number);
    const scale = text.startsWith("color(") ? 255 : 1;
    return [...numbers.slice(0, 3).map((n) => n * scale), numbers[3] ?? 1];
  };
  const over = (top, under) => top.slice(0, 3).map((c, i) => c * top[3] + under[i] * (1 - top[3]));
  const light = (rgb) => {
    const [r, g, b] = rgb.map((c) => c / 255)
      .map((c) => (c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4));
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const behind = (element) => {
    const layers = [];
    for (let e = element; e; e = e.parentElement) {
      layers.unshift(parse(getComputedStyle(e).backgroundColor));
    }
    return layers.reduce((under, top) => over(top, under), [255, 255, 255]);
  };
  const painted = (element, under) => {
    const own = element.getBoundingClientRect();
    const [x, y] = [own.left + own.width / 2, own.top + own.height / 2];
    for (const shape of element.closest("svg").querySelectorAll("path, rect")) {
      const box = shape.getBoundingClientRect();
      const inside = box.left <= x && x <= box.right && box.top <= y && y <= box.bottom;
      const before = shape.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_FOLLOWING;
      const style = getComputedStyle(shape);
      if (!inside || !before || style.fill === "none" || shape.closest("defs, clipPath")) continue;
      const [r, g, b, alpha] = parse(style.fill);
      under = over([r, g, b, alpha * style.opacity * style.fillOpacity], under);
    }
    return under;
  };
  const low = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const text = walker.currentNode.data.trim();
    if (!text || !element.checkVisibility()) continue;
    if (element.closest("script, style, .hidden, .skip")) continue;
    const style = getComputedStyle(element);
    const drawn = element.namespaceURI.endsWith("svg");
    const under = drawn ? painted(element, behind(element)) : behind(element);
    const [one, other] = [over(parse(drawn ? style.fill : style.color), under), under].map(light);
    const ratio = (Math.max(one, other) + .05) / (Math.min(one, other) + .05);
    if (ratio < 4.5) {
      low.push([element.tagName, element.className, text.slice(0, 30), ratio.toFixed(2)].join(" "));
    }
  }
  return low;
})()
