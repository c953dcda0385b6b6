"use strict";
// Rows are set as text alone, so nothing in them becomes an element.
const PAGE = 50, MOST_VALUES = 40, DIFFERENCE = "difference", FAVOURED = "in favour of";
const find = (id) => document.getElementById(id);
const made = (tag, text, attributes = {}) => {
  const element = document.createElement(tag);
  element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
};
const blocks = new Map([...document.querySelectorAll("script[data-name]")].map((block) => [block.dataset.name, block]));
const known = new Map();
let table, sort, order, page, chosen, filters;

async function read(name) {
  if (known.has(name)) return known.get(name);
  const bytes = Uint8Array.from(atob(blocks.get(name).textContent), (letter) => letter.charCodeAt(0));
  const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const read = await new Response(unpacked).json();
  const columns = new Map(Object.entries(read.columns));
  if (read.numbers) {
    const [one, other] = read.numbers.map((column) => columns.get(column));
    const differences = one.map((value, row) => value === null || other[row] === null ? null : value - other[row]);
    columns.set(DIFFERENCE, differences.map((value) => value === null ? null : Math.abs(value)));
    columns.set(FAVOURED, differences.map((value) => value ? read.names[value > 0 ? 0 : 1] : ""));
    read.shown.splice(read.shown.indexOf(read.numbers[1]) + 1, 0, DIFFERENCE, FAVOURED);
  }
  const count = columns.get("id").length;
  const numeric = new Set([...columns.keys()].filter((name) => columns.get(name).some((v) => typeof v === "number")));
  const texts = [...columns.keys()].filter((name) => !numeric.has(name)).map((name) => columns.get(name));
  const search = Array.from({length: count}, (_, row) => texts.map((values) => values[row]).join("\n").toLowerCase());
  const shown = [...new Set(read.shown)].filter((name) => columns.has(name));
  known.set(name, {columns, count, numeric, search, shown});
  return known.get(name);
}

const printed = (value) => {
  if (value === null) return "–";
  if (typeof value !== "number") return String(value);
  const size = Math.abs(value);
  const text = Number.isInteger(value) ? String(value) : size && size < 1e-3 ? value.toExponential(2) : value.toPrecision(4);
  return text.replace("-", "\u2212");
};

function matching() {
  const words = find("search").value.toLowerCase().trim();
  const wanted = [...filters].filter(([, value]) => value !== "").map(([name, value]) => [table.columns.get(name), value]);
  const rows = [];
  for (let row = 0; row < table.count; row++) {
    if ((!words || table.search[row].includes(words)) && wanted.every(([values, value]) => String(values[row]) === value)) {
      rows.push(row);
    }
  }
  const values = table.columns.get(sort), numeric = table.numeric.has(sort);
  const last = (row) => values[row] === null;  // numbers that are not defined come last in both orders
  const compare = (a, b) => numeric ? values[a] - values[b] : String(values[a]).localeCompare(String(values[b]));
  return rows.sort((a, b) => last(a) - last(b) || (last(a) ? 0 : order * compare(a, b)));
}

function show() {
  const rows = matching(), pages = Math.max(1, Math.ceil(rows.length / PAGE));
  page = Math.min(page, pages - 1);
  const names = [...table.columns.keys()].filter((name) => chosen.has(name));
  names.sort((a, b) => (table.shown.indexOf(a) + 1 || 99) - (table.shown.indexOf(b) + 1 || 99));
  const head = document.createElement("tr");
  for (const name of names) {
    const cell = made("th", "", {scope: "col", class: table.numeric.has(name) ? "num" : ""});
    if (name === sort) cell.setAttribute("aria-sort", order < 0 ? "descending" : "ascending");
    const button = made("button", name === sort ? `${name} ${order < 0 ? "↓" : "↑"}` : name, {type: "button"});
    button.addEventListener("click", () => {
      [order, sort] = [name === sort ? -order : table.numeric.has(name) ? -1 : 1, name];
      [find("sort").value, find("order").value, page] = [sort, String(order), 0];
      show();
    });
    cell.append(button);
    head.append(cell);
  }
  document.querySelector(".listing thead").replaceChildren(head);
  document.querySelector(".listing tbody").replaceChildren(...rows.slice(page * PAGE, (page + 1) * PAGE).map((row) => {
    const line = document.createElement("tr");
    line.append(...names.map((name) => {
      const text = printed(table.columns.get(name)[row]);
      const kind = table.numeric.has(name) ? "num" : text.length > 40 ? "text long" : "text";
      return made("td", text, {class: kind, "data-name": name});
    }));
    return line;
  }));
  const all = table.count.toLocaleString("en"), found = rows.length.toLocaleString("en");
  find("status").textContent = rows.length === table.count ? `${all} rows` : `${found} of ${all} rows`;
  find("place").textContent = `page ${page + 1} of ${pages}`;
  find("pages").hidden = pages === 1;
  [find("previous").disabled, find("next").disabled] = [page === 0, page === pages - 1];
}

async function open(name) {
  table = await read(name);
  find("benchmark").value = name;
  const names = [...table.columns.keys()];
  [sort, order, page] = table.columns.has(DIFFERENCE) ? [DIFFERENCE, -1, 0] : [names[0], 1, 0];
  [chosen, filters] = [new Set(table.shown), new Map()];
  find("search").value = "";
  find("sort").replaceChildren(...names.map((column) => made("option", column, {value: column})));
  [find("sort").value, find("order").value] = [sort, String(order)];
  find("filters").replaceChildren(...names.flatMap((column) => {
    const values = table.numeric.has(column) ? [] : [...new Set(table.columns.get(column).map(String))].sort();
    if (values.length < 2 || values.length > MOST_VALUES) return [];
    const label = made("label", `${column} `), select = made("select", "", {"data-column": column});
    select.append(made("option", "all", {value: ""}), ...values.map((value) => made("option", value || "(none)", {value})));
    select.addEventListener("change", () => {
      filters.set(column, select.value);
      page = 0;
      show();
    });
    label.append(select);
    return [label];
  }));
  find("columns").replaceChildren(...names.map((column) => {
    const label = made("label", ""), box = made("input", "", {type: "checkbox"});
    box.checked = chosen.has(column);
    box.addEventListener("change", () => {
      chosen[box.checked ? "add" : "delete"](column);
      show();
    });
    label.append(box, ` ${column}`);
    return label;
  }));
  [find("controls").hidden, find("chooser").hidden] = [false, false];
  show();
}

const start = () => {
  const wanted = decodeURIComponent(location.hash.slice(1));
  open(blocks.has(wanted) ? wanted : [...blocks.keys()][0]).catch((error) => {
    find("status").textContent = `The rows cannot be read (${error.message}); this browser may be too old.`;
  });
};
find("controls").addEventListener("submit", (event) => event.preventDefault());
find("benchmark").addEventListener("change", (event) => { location.hash = encodeURIComponent(event.target.value); });
find("search").addEventListener("input", () => { page = 0; show(); });
find("sort").addEventListener("change", (event) => { [sort, page] = [event.target.value, 0]; show(); });
find("order").addEventListener("change", (event) => { [order, page] = [Number(event.target.value), 0]; show(); });
for (const [id, step] of [["previous", -1], ["next", 1]]) {
  find(id).addEventListener("click", () => { page += step; show(); });
}
window.addEventListener("hashchange", start);
start();
