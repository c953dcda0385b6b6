(() => {
  const root = document.currentScript.closest(".overview"), table = root.querySelector("table");
  const form = root.querySelector("form"), search = form.elements.search, byFamily = form.elements.families;
  const models = [...table.querySelectorAll("tbody.model")], heads = [...table.querySelectorAll("tbody.family")];
  const folded = new Set();
  let column = -1, sign = 1;

  const key = (body) => column === -1 ? body.dataset.key : body.querySelector(`tr td[data-column="${column}"]`).dataset.key;
  // Models without the score, or without a rank, are last in both directions.
  const last = (body) => column !== -1 && (key(body) === "" || body.classList.contains("unranked"));
  const compare = (a, b) => {
    if (last(a) || last(b)) return last(a) - last(b);
    if (column === -1) return sign * (a.dataset.key.localeCompare(b.dataset.key) || a.dataset.place - b.dataset.place);
    return sign * (Number(key(a)) - Number(key(b)));
  };

  const arrange = () => {
    const grouped = Boolean(byFamily && byFamily.checked), words = search.value.trim().toLowerCase();
    const ordered = [...models].sort(compare), rows = [];
    table.classList.toggle("related", grouped);
    for (const body of ordered) {
      const isFound = !words || `${body.textContent} ${body.dataset.family}`.toLowerCase().includes(words);
      body.dataset.found = isFound ? "yes" : "";
      body.hidden = !isFound || (grouped && folded.has(body.dataset.family));
    }
    const placed = new Set();
    const before = (a, b) => a.dataset.place - b.dataset.place;
    for (const body of ordered) {
      const family = grouped ? body.dataset.family : "";
      if (!family) { rows.push(body); continue; }
      // A family is where its best model is; by name, its models are in the order of their sizes and steps.
      if (placed.has(family)) continue;
      placed.add(family);
      const relatives = ordered.filter((other) => other.dataset.family === family);
      if (column === -1) relatives.sort((a, b) => sign * before(a, b));
      rows.push(heads.find((head) => head.dataset.family === family), ...relatives);
    }
    for (const head of heads) {
      head.hidden = !grouped || !models.some((body) => body.dataset.family === head.dataset.family && body.dataset.found);
    }
    table.append(...heads.filter((head) => !rows.includes(head)), ...rows);
    const count = models.filter((body) => body.dataset.found).length;
    form.querySelector("output").textContent = words ? `${count} of ${models.length} models` : "";
  };

  for (const button of table.querySelectorAll("thead button")) {
    button.addEventListener("click", () => {
      const head = button.parentElement, chosen = Number(button.dataset.column);
      sign = chosen === column ? -sign : 1;
      column = chosen;
      for (const other of table.querySelectorAll("thead th")) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
      arrange();
    });
  }
  for (const head of heads) {
    const button = head.querySelector("button");
    button.addEventListener("click", () => {
      const family = head.dataset.family;
      if (!folded.delete(family)) folded.add(family);
      button.setAttribute("aria-expanded", String(!folded.has(family)));
      arrange();
    });
  }
  // The head of a family is as wide as the columns that are seen.
  const span = () => {
    const seen = [...table.querySelectorAll("thead th")].filter((head) => head.offsetWidth > 0);
    for (const head of heads) head.querySelector("th").colSpan = seen.length;
  };
  const show = (number, isShown) => {
    for (const cell of table.querySelectorAll(`.score[data-column="${number}"]`)) cell.hidden = !isShown;
    span();
  };
  for (const box of form.querySelectorAll("[name=column]")) {
    box.addEventListener("change", () => show(box.value, box.checked));
    show(box.value, box.checked);
  }
  const choose = () => {
    for (const cell of table.querySelectorAll(".score")) {
      const isChosen = cell.dataset.column === form.elements.score.value;
      cell.classList.toggle("chosen", isChosen);
    }
    span();
  };
  window.addEventListener("resize", span);
  form.elements.score.addEventListener("change", choose);
  form.addEventListener("submit", (event) => event.preventDefault());
  search.addEventListener("input", arrange);
  if (byFamily) byFamily.addEventListener("change", arrange);
  choose();
  arrange();
})();
