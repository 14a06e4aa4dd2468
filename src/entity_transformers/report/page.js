"use strict";
// What the page does beyond being read: theme, contents, tables, figures. Without it all is there.

const all = (selector, root = document) => [...root.querySelectorAll(selector)];

function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

function say(text) {
  document.getElementById("said").textContent = text;
}

async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
  } catch { // a page opened without a server may not use the clipboard so
    const area = make("textarea", { value: text, className: "hidden" });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  say(`${what} copied`);
}

// ---- theme and contents

const THEMES = ["auto", "light", "dark"];

function readTheme() {
  try { return localStorage.getItem("theme") || "auto"; } catch { return "auto"; }
}

function setTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  try { localStorage.setItem("theme", theme); } catch { /* it lasts as long as the page */ }
}

function addTools() {
  const bar = document.querySelector(".tools");
  const theme = make("button", { type: "button" });
  const show = () => { theme.textContent = `Theme: ${readTheme()}`; };
  theme.addEventListener("click", () => {
    setTheme(THEMES[(THEMES.indexOf(readTheme()) + 1) % THEMES.length]);
    show();
  });
  setTheme(readTheme());
  show();
  const parts = all("details.part");
  const open = make("button", { type: "button", textContent: "Open all" });
  open.addEventListener("click", () => {
    const opening = parts.some((part) => !part.open);
    for (const part of parts) part.open = opening;
    open.textContent = opening ? "Close all" : "Open all";
  });
  bar.append(theme, ...(parts.length ? [open] : []));
  bar.hidden = false;
}

function openTarget() {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (!target) return;
  const within = target.closest("details.part");
  for (const part of [within, target.querySelector("details.part")]) if (part) part.open = true;
  target.scrollIntoView();
}

function followSections() {
  const links = new Map(all("nav a").map((link) => [link.hash.slice(1), link]));
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const link of links.values()) link.removeAttribute("aria-current");
      links.get(entry.target.id).setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-10% 0px -80% 0px" });
  for (const id of links.keys()) seen.observe(document.getElementById(id));
}

function openForPrint() {
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = all("details.part").filter((part) => !part.open);
    for (const part of closed) part.open = true;
  });
  addEventListener("afterprint", () => { for (const part of closed) part.open = false; });
}

// ---- tables

const cellsOf = (row) => [...row.cells].map((cell) => cell.textContent);

function valueOf(cell) {
  return cell.dataset.value === undefined ? NaN : Number(cell.dataset.value);
}

function compareCells(first, second) {
  const [one, other] = [valueOf(first), valueOf(second)];
  if (!Number.isNaN(one) && !Number.isNaN(other)) return one - other;
  if (Number.isNaN(one) !== Number.isNaN(other)) return Number.isNaN(one) ? 1 : -1;
  return first.textContent.localeCompare(second.textContent, "en", { numeric: true });
}

function sortTable(table, column, descending) {
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const sign = descending ? -1 : 1;
  const empty = (row) => ["–", ""].includes(row.cells[column].textContent);
  rows.sort((a, b) => empty(a) - empty(b) || sign * compareCells(a.cells[column], b.cells[column]));
  for (const row of rows) row.classList.remove("start");
  body.append(...rows);
}

function addSorting(table) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = make("button", { type: "button", textContent: head.textContent });
    button.title = "Sort";
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const descending = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      sortTable(table, column, descending);
    });
  });
}

function shownRows(table) {
  const rows = [...table.tBodies[0].rows].filter((row) => !row.hidden);
  return [[...table.tHead.rows[0].cells].map((head) => head.textContent), ...rows.map(cellsOf)];
}

function writeCsv(rows) {
  const quote = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const lines = rows.map((row) => row.map((cell) => quote(cell.replaceAll("−", "-"))).join(","));
  return `${lines.join("\n")}\n`;
}

const TEX = {
  "\\": "\\textbackslash{}", "&": "\\&", "%": "\\%", "$": "\\$", "#": "\\#", "_": "\\_", "{": "\\{",
  "}": "\\}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "−": "$-$", "±": "$\\pm$",
  "–": "--", "≥": "$\\geq$", "≤": "$\\leq$", "→": "$\\to$", "<": "$<$", ">": "$>$",
};

function writeLatex(rows, numeric) {
  const escape = (text) => text.replace(/[\\&%$#_{}~^−±–≥≤→<>]/g, (found) => TEX[found]);
  const [head, ...body] = rows.map((row) => `${row.map(escape).join(" & ")} \\\\`);
  const columns = numeric.map((is) => (is ? "r" : "l")).join("");
  return [`\\begin{tabular}{${columns}}`, "\\toprule", head, "\\midrule", ...body, "\\bottomrule",
    "\\end{tabular}", ""].join("\n");
}

function addTable(table) {
  const bar = make("div", { className: "bar" });
  const rows = [...table.tBodies[0].rows];
  if (table.id !== "table1") addSorting(table);
  if (rows.length > 5 && table.id !== "table1") {
    const filter = make("input", { type: "search", placeholder: "Only rows with …" });
    filter.setAttribute("aria-label", "Only rows with");
    filter.addEventListener("input", () => {
      const wanted = filter.value.toLowerCase().split(/\s+/);
      for (const row of rows) {
        const text = cellsOf(row).join(" ").toLowerCase();
        row.hidden = !wanted.every((word) => text.includes(word));
      }
      say(`${rows.filter((row) => !row.hidden).length} of ${rows.length} rows`);
    });
    bar.append(filter);
  }
  const numeric = [...table.tHead.rows[0].cells].map((head) => head.classList.contains("number"));
  const forms = { CSV: writeCsv, LaTeX: (shown) => writeLatex(shown, numeric) };
  for (const [form, write] of Object.entries(forms)) {
    const button = make("button", { type: "button", textContent: `Copy ${form}` });
    button.addEventListener("click", () => copy(write(shownRows(table)), form));
    bar.append(button);
  }
  table.closest(".scroll").before(bar);
}

// ---- figures: the point next to the pointer, or the arrow keys', tells its values

function addFigure(figure) {
  const picture = figure.querySelector(".picture");
  const data = figure.querySelector("script");
  const marks = data ? JSON.parse(data.textContent) : [];
  const drawn = picture.querySelector("svg");
  if (!marks.length || !drawn) return;
  const tip = make("div", { className: "tip", hidden: true });
  const dot = make("div", { className: "dot", hidden: true });
  picture.append(dot);
  document.body.append(tip);
  let current = -1;

  function show(index) {
    current = index;
    tip.hidden = dot.hidden = index < 0;
    if (index < 0) return;
    const [across, down, text] = marks[index];
    const box = drawn.getBoundingClientRect();
    dot.style.left = `${box.width * across}px`;
    dot.style.top = `${box.height * down}px`;
    tip.textContent = text;
    const left = box.left + box.width * across + 12;
    tip.style.left = `${Math.max(4, Math.min(left, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${Math.max(4, box.top + box.height * down - tip.offsetHeight - 10)}px`;
  }

  picture.addEventListener("pointermove", (event) => {
    const box = drawn.getBoundingClientRect();
    let [best, least] = [-1, 24];
    marks.forEach(([across, down], index) => {
      const [x, y] = [box.left + box.width * across, box.top + box.height * down];
      const away = Math.hypot(x - event.clientX, y - event.clientY);
      if (away < least) [best, least] = [index, away];
    });
    show(best);
  });
  picture.addEventListener("pointerleave", () => show(-1));
  picture.addEventListener("blur", () => show(-1));
  picture.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === "Escape") show(-1);
    if (!step) return;
    event.preventDefault();
    show((current + step + marks.length) % marks.length);
    say(marks[current][2]);
  });
}

addTools();
all(".measured table").forEach(addTable);
all("figure").forEach(addFigure);
followSections();
openForPrint();
addEventListener("hashchange", openTarget);
all("nav a").forEach((link) => link.addEventListener("click", () => setTimeout(openTarget)));
openTarget();
