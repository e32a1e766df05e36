// Download buttons: leaderboards as CSV, with the rows shown and in their order; pictures as SVG.
const INK = { ink: "#1a1a1a", soft: "#9a9a9a", accent: "#0b5394", line: "#e4e4e4", paper: "#ffffff" };

function offer(title, name, kind, content) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "take";
  button.textContent = title;
  button.addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([content()], { type: kind }));
    link.download = name;
    link.click();
    URL.revokeObjectURL(link.href);
  });
  return button;
}

function fileName(words, ending) {
  return `${words.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "")}.${ending}`;
}

// Split a cell such as "+1.20 (+0.85 to +1.55)" into its value and both ends of its interval.
function parts(cell) {
  const said = (cell.querySelector("svg title") ?? cell).textContent.trim();
  const ends = cell.querySelector(".interval, svg") && said.match(/^(.*?) \((\S+) to (\S+)\)$/s);
  return ends ? ends.slice(1) : [said, "", ""];
}

// Put a ' before what a spreadsheet would take for a formula; drop the plus sign of numbers.
function field(text) {
  const plain = /^\+[\d.]/.test(text) ? text.slice(1) : text;
  const safe = /^[=+\-@\t\r\n|%]/.test(plain) && !/^-[\d.]/.test(plain) ? `'${plain}` : plain;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

function csv(table) {
  const rows = [...table.tBodies[0].rows].filter((row) => !("left" in row.dataset));
  const cells = rows.map((row) => [...row.cells].map(parts));
  const heads = [...table.tHead.rows[0].cells].map((head) => head.querySelector("button").textContent);
  const drawn = heads.map((_, k) => cells.some((row) => row[k][1] !== ""));
  const line = (of) => heads.flatMap((_, k) => (drawn[k] ? of(k) : of(k).slice(0, 1))).map(field).join(",");
  const titles = line((k) => [heads[k], `${heads[k]} low`, `${heads[k]} high`]);
  return [titles, ...cells.map((row) => line((k) => row[k])), ""].join("\n");
}

function picture(svg) {
  const copy = svg.cloneNode(true);
  const [, , width, height] = svg.getAttribute("viewBox").split(" ");
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  const colours = Object.entries(INK).map(([name, colour]) => `--${name}:${colour}`);
  copy.setAttribute("style", [...colours, "color:#1a1a1a", "background:#fff"].join(";"));
  return new XMLSerializer().serializeToString(copy);
}

for (const table of document.querySelectorAll("table.board")) {
  const topic = table.closest("section")?.getAttribute("aria-label");
  const button = offer("Download CSV", fileName(topic ? `ranking ${topic}` : "ranking", "csv"), "text/csv", () => csv(table));
  table.closest(".scroll").before(button);
}
for (const svg of document.querySelectorAll("figure > svg")) {
  const name = svg.getAttribute("aria-label");
  const button = offer("Download SVG", fileName(name, "svg"), "image/svg+xml", () => picture(svg));
  button.setAttribute("aria-label", `Download SVG: ${name}`);
  svg.parentNode.append(button);
}
