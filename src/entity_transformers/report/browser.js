// The document browser: each token's loss under two models, their difference, and the memory read.

function buildBrowser(home, data) {
  const { pages, scores } = data;
  const other = scores.findIndex((score) => score.model !== scores[0].model);
  const theirs = Math.max(0, other);
  const state = { page: 0, ours: 0, theirs, shade: "difference", chain: 0, at: -1 };
  const labels = scores.map((score) => score.label);

  function choose(name, key, options) {
    const select = make("select", {});
    options.forEach(([value, textContent]) => {
      select.append(make("option", { value, textContent }));
    });
    select.value = state[key];
    select.addEventListener("change", () => {
      state[key] = typeof state[key] === "number" ? Number(select.value) : select.value;
      if (key === "page") Object.assign(state, { chain: 0, at: -1 });
      draw();
    });
    bar.append(make("label", {}, `${name} `, select));
    return select;
  }

  const bar = make("div", { className: "bar" });
  const numbered = (texts) => texts.map((text, index) => [index, text]);
  choose("Document", "page", numbered(pages.map((page) => page.name)));
  choose("Model", "ours", numbered(labels));
  choose("against", "theirs", numbered(labels));
  choose("Shade", "shade", [["difference", "difference in loss"], ["ours", "loss of the model"],
    ["theirs", "loss of the other"], ["read", "memory read by the model"]]);
  const chains = choose("Entity", "chain", [[0, "all"]]);
  const key = make("p", { className: "note" });
  const summary = make("p", {});
  const passage = make("div", { className: "tokens", tabIndex: 0 });
  passage.setAttribute("role", "group");
  passage.setAttribute("aria-label", "Tokens: arrow keys go from one to the next");
  const told = make("p", { className: "told" });
  told.setAttribute("role", "status");
  home.append(bar, key, passage, told, summary);

  const nats = (value) => value.toFixed(2).replace("-", "−");
  const signed = (value) => (value > 0 ? "+" : "") + nats(value);
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const losses = (which) => scores[state[which]].nats[state.page];
  const readAt = (index) => (scores[state.ours].read[state.page] || [])[index] || [];

  function shareOf(index) {
    const read = readAt(index).filter(([entity]) => !state.chain || entity === state.chain);
    return read.reduce((sum, [, percent]) => sum + percent, 0);
  }

  function heat(index) {
    if (state.shade === "read") return ["--read", shareOf(index)];
    if (state.shade !== "difference") return ["--more", losses(state.shade)[index] * 5];
    const difference = losses("ours")[index] - losses("theirs")[index];
    return [difference > 0 ? "--more" : "--less", Math.abs(difference) * 40];
  }

  const swatch = (colour) => {
    const box = make("span", { className: "key" });
    const full = `color-mix(in srgb, var(${colour}) 60%, transparent)`;
    box.style.background = `linear-gradient(to right, transparent, ${full})`;
    return box;
  };

  function explain() {
    const told = {
      difference: [swatch("--less"), ` less loss than ${labels[state.theirs]}, `, swatch("--more"),
        " more: full at 1.5 nats."],
      ours: [swatch("--more"), " loss, full at 12 nats."],
      theirs: [swatch("--more"), " loss, full at 12 nats."],
      read: [swatch("--read"), " share of the entity attention, from the position before the",
        ` token, that went to ${state.chain ? "this entity" : "any entity"}: full at 60%.`],
    }[state.shade];
    const silent = state.shade === "read" && !(scores[state.ours].read.length);
    const nothing = [`${labels[state.ours]} reads no entities: nothing to shade.`];
    key.replaceChildren(...(silent ? nothing : told), " Underlined: a mention.");
  }

  function describe(index) {
    const page = pages[state.page];
    const [one, other] = [losses("ours")[index], losses("theirs")[index]];
    const entity = page.entities[index];
    const token = page.tokens[index];
    const name = token ? `“${token.trim() || "line break"}”` : "Part of the next character";
    const read = readAt(index)
      .map(([which, percent]) => `${which} ${page.names[which] || ""} ${percent}%`);
    return [
      `${name}: ${labels[state.ours]} ${nats(one)} nats,`
        + ` ${labels[state.theirs]} ${nats(other)}, difference ${signed(one - other)}.`,
      entity ? `Part of entity ${entity}, ${page.names[entity]}.` : "",
      read.length ? `Memory read before it: ${read.join("; ")}.` : "",
    ].filter(Boolean).join(" ");
  }

  function point(index) {
    state.at = index;
    [...passage.children].forEach((span, place) => span.classList.toggle("here", place === index));
    told.textContent = index < 0 ? "Point at a token, or use the arrow keys." : describe(index);
  }

  function summarise() {
    const page = pages[state.page];
    const pick = page.tokens.map((_, index) => index)
      .filter((index) => !state.chain || page.entities[index] === state.chain);
    const [one, other] = ["ours", "theirs"]
      .map((which) => mean(pick.map((index) => losses(which)[index])));
    summary.textContent = `${state.chain ? `Entity ${state.chain}` : "Whole excerpt"},`
      + ` ${pick.length} tokens: ${labels[state.ours]} ${nats(one)} nats per token,`
      + ` ${labels[state.theirs]} ${nats(other)}, difference ${signed(one - other)}.`;
  }

  function draw() {
    const page = pages[state.page];
    const known = Object.entries(page.names)
      .map(([entity, name]) => [Number(entity), `${entity} ${name}`]);
    chains.replaceChildren(...[[0, "all"], ...known]
      .map(([value, textContent]) => make("option", { value, textContent })));
    chains.value = state.chain;
    passage.replaceChildren(...page.tokens.map((token, index) => {
      const span = make("span", { textContent: token });
      const [colour, much] = heat(index);
      span.style.setProperty("--heat", `var(${colour})`);
      span.style.setProperty("--much", Math.round(Math.min(60, much)));
      span.classList.toggle("mention", page.entities[index] > 0);
      span.classList.toggle("chosen", state.chain > 0 && page.entities[index] === state.chain);
      return span;
    }));
    explain();
    summarise();
    point(state.at);
  }

  passage.addEventListener("pointerover", (event) => {
    const index = [...passage.children].indexOf(event.target);
    if (index >= 0) point(index);
  });
  passage.addEventListener("keydown", (event) => {
    const last = passage.children.length - 1;
    const next = {
      ArrowRight: state.at + 1, ArrowLeft: state.at - 1, Home: 0, End: last,
    }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    point(Math.max(0, Math.min(last, next)));
    passage.children[state.at].scrollIntoView({ block: "nearest" });
  });
  draw();
}

const excerpts = document.getElementById("excerpts");
if (excerpts) {
  const home = document.getElementById("browser");
  buildBrowser(home, JSON.parse(excerpts.textContent));
  home.hidden = false;
  document.querySelector("#documents .plain").hidden = true;
}
