"use strict";
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const head = button.closest("th");
    const body = head.closest("table").tBodies[0];
    const column = head.cellIndex;
    const descending = head.getAttribute("aria-sort") === "ascending";
    const key = (row) => {
      const cell = row.cells[column];
      return "value" in cell.dataset ? Number(cell.dataset.value) : cell.textContent.trim();
    };
    const compare = (x, y) =>
      typeof x === "number" ? x - y : x.localeCompare(y, undefined, { numeric: true });
    const rows = [...body.rows].sort((p, q) => compare(key(p), key(q)) * (descending ? -1 : 1));
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    body.append(...rows);
  });
}
