"use strict";
// Every table sorts by its headers. Long tables are shown in pages and have a filter.
const PAGE = 100;
const words = new Intl.Collator(undefined, { numeric: true });

function sortable(table, refresh) {
  const body = table.tBodies[0];
  for (const button of table.querySelectorAll("th button")) {
    button.addEventListener("click", () => {
      const head = button.closest("th");
      const column = head.cellIndex;
      const descending = head.getAttribute("aria-sort") === "ascending";
      const key = (row) => {
        const cell = row.cells[column];
        if (!("value" in cell.dataset)) return cell.textContent.trim();
        const value = Number(cell.dataset.value);
        return Number.isNaN(value) ? Infinity : value;
      };
      const compare = (x, y) => (typeof x === "number" ? (x > y) - (x < y) : words.compare(x, y));
      const keyed = [...body.rows].map((row) => [key(row), row]);
      const rows = keyed.sort((p, q) => compare(p[0], q[0]) * (descending ? -1 : 1)).map(([, row]) => row);
      for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      body.append(...rows);
      refresh();
    });
  }
}

function paged(table) {
  const body = table.tBodies[0];
  const texts = new Map([...body.rows].map((row) => [row, row.textContent.toLowerCase()]));
  let first = 0;
  const bar = document.createElement("div");
  bar.className = "pages";
  const label = document.createElement("label");
  label.append("Filter ");
  const filter = document.createElement("input");
  filter.type = "search";
  label.append(filter);
  const back = document.createElement("button");
  back.textContent = "Previous";
  const on = document.createElement("button");
  on.textContent = "Next";
  for (const button of [back, on]) button.type = "button";
  const said = document.createElement("span");
  said.setAttribute("role", "status");
  bar.append(label, back, on, said);
  table.closest(".scroll").before(bar);
  const show = () => {
    const wanted = filter.value.trim().toLowerCase();
    const found = [];
    for (const row of body.rows) {
      if (texts.get(row).includes(wanted)) found.push(row);
      row.toggleAttribute("data-left", !texts.get(row).includes(wanted));
    }
    first = Math.max(0, Math.min(first, PAGE * Math.floor((found.length - 1) / PAGE)));
    for (const row of body.rows) row.hidden = true;
    const shown = found.slice(first, first + PAGE);
    for (const row of shown) row.hidden = false;
    for (const button of [back, on]) button.hidden = body.rows.length <= PAGE;
    back.disabled = first === 0;
    on.disabled = first + PAGE >= found.length;
    const last = first + shown.length;
    said.textContent = shown.length ? `${first + 1} to ${last} of ${found.length}` : "none found";
  };
  const turn = (rows) => () => { first += rows; show(); };
  filter.addEventListener("input", () => { first = 0; show(); });
  back.addEventListener("click", turn(-PAGE));
  on.addEventListener("click", turn(PAGE));
  window.addEventListener("beforeprint", () => { for (const row of body.rows) row.hidden = false; });
  window.addEventListener("afterprint", show);
  show();
  return () => { first = 0; show(); };
}

for (const table of document.querySelectorAll("table")) {
  const long = table.tBodies[0].rows.length > 20 && table.closest(".scroll");
  sortable(table, long ? paged(table) : () => {});
}
// A select box chooses which ranking by topic is shown; print shows all.
for (const choice of document.querySelectorAll(".choice")) {
  const label = document.createElement("label");
  label.className = "pages";
  label.append(`${choice.dataset.label} `);
  const box = document.createElement("select");
  const parts = [...choice.children];
  for (const part of parts) box.add(new Option(part.getAttribute("aria-label")));
  const show = () => parts.forEach((part, k) => { part.hidden = k !== box.selectedIndex; });
  box.addEventListener("change", show);
  window.addEventListener("beforeprint", () => parts.forEach((part) => { part.hidden = false; }));
  window.addEventListener("afterprint", show);
  label.append(box);
  choice.prepend(label);
  show();
}
const reveal = () => {
  const there = document.getElementById(location.hash.slice(1));
  there?.closest("details")?.setAttribute("open", "");
};
window.addEventListener("hashchange", reveal);
reveal();
// In print, the section for statisticians stays folded unless it was opened.
window.addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details:not(.deep)")) details.open = true;
});
