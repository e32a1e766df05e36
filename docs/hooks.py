"""Pages that are generated from the project: notebooks, names, commands and the bibliography."""

import base64
import re
import subprocess
import sys
from pathlib import Path

import nbformat
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from nbformat import NotebookNode

import bayesirt

ROOT = Path(__file__).parents[1]
_NAME = re.compile(r"^::: bayesirt\.(\w+)$", re.MULTILINE)
_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)
_FIELD = re.compile(r"(\w+) = \{((?:[^{}]|\{[^{}]*\})*)\}")


def on_config(config: MkDocsConfig) -> None:
    """Make search work for pages opened as files, without external scripts."""
    config.extra["polyfills"] = ["search_from_files.js"]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        text, pictures = _page_of(nbformat.read(path, as_version=4), path.stem)
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=text))
        for name, picture in pictures.items():
            files.append(File.generated(config, f"notebooks/{name}", content=picture))
    files.append(File.generated(config, "reference/commands.md", content=_commands()))
    files.append(File.generated(config, "background/bibliography.md", content=_bibliography()))
    return files


def on_page_markdown(markdown: str, **_page: object) -> str:
    """Point mkdocstrings to the module that defines each exported name."""
    return _NAME.sub(_described, markdown)


def on_page_content(html: str, **_page: object) -> str:
    """Convert formulas to MathML, which browsers render, and unlink the anchors of names."""
    return _FORMULA.sub(_drawn, html).replace('<a href="" id="', '<a id="')


def _described(found: re.Match[str]) -> str:
    name = found[1]
    options = f"    options:\n      heading: {name}\n      toc_label: {name}"
    return f"[](){{#bayesirt.{name}}}\n\n::: {bayesirt._HOME[name]}.{name}\n{options}"


def _drawn(found: re.Match[str]) -> str:
    latex = found[2].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    mathml = convert(latex.strip(), display="inline" if found[1] == "span" else "block")
    return mathml.replace("<mi>&#x0007E;</mi>", "<mo>&#x223C;</mo>")  # with a relation's spaces


def _page_of(notebook: NotebookNode, stem: str) -> tuple[str, dict[str, bytes]]:
    """Return a notebook as Markdown, and its pictures by name."""
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in notebook.cells:
        parts.append(
            cell.source if cell.cell_type == "markdown" else _fenced(cell.source, "python")
        )
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/png" in data:
                name = f"{stem}_{len(pictures) + 1}.png"
                pictures[name] = base64.b64decode(data["image/png"])
                parts.append(f"![What the cell above draws]({name})")
            elif "text/html" in data:
                parts.append(_plain_table(data["text/html"]))
            else:
                parts.append(_fenced(output.get("text") or data["text/plain"], "text"))
    by = f"run by version {notebook.metadata['bayesirt']['version']}"
    parts.append(f"*This page is the notebook `notebooks/{stem}.ipynb`, {by}.*")
    return "\n\n".join(parts), pictures


def _fenced(text: str, language: str) -> str:
    return f"````{language}\n{text.rstrip()}\n````"


def _plain_table(html: str) -> str:
    """Return a table without pandas' styling, so that the site's styles apply."""
    html = re.sub(r"<style scoped>.*?</style>", "", html, flags=re.DOTALL)
    html = html.replace('<table border="1" class="dataframe">', "<table>")
    return f'<div class="output">\n{html}\n</div>'


def _commands() -> str:
    """Return typer's documentation of the command line."""
    command = ["-m", "typer", "bayesirt.cli.commands", "utils", "docs", "--name", "bayesirt"]
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True)
    return done.stdout.replace("# `bayesirt`\n", "# Commands\n", 1)


def _bibliography() -> str:
    """Return the bibliography in readable form."""
    text = (ROOT / "bayesirt" / "report" / "references.bib").read_text("utf-8")
    entries = [_entry(dict(_FIELD.findall(entry))) for entry in text.strip().split("\n\n")]
    start = "# Bibliography\n\nThe sources of the package's methods. `bayesirt cite run/` prints "
    return f"{start}those that a run has used, as BibTeX.\n\n" + "\n".join(entries) + "\n"


def _entry(field: dict[str, str]) -> str:
    plain = {name: re.sub(r"[{}\\]", "", text).replace("--", "–") for name, text in field.items()}
    where = plain.get("journal") or plain.get("booktitle") or plain.get("publisher")
    link = ""
    if doi := plain.get("doi"):
        link = f" [doi:{doi}](https://doi.org/{doi})."
    elif number := plain.get("eprint"):
        link = f" [arXiv:{number}](https://arxiv.org/abs/{number})."
    volume = f" {plain['volume']}" if "volume" in plain else ""
    pages = f", {plain['pages']}" if "pages" in plain else ""
    place = f" *{where}*{volume}{pages}." if where else ""
    return f"- {plain['author']} ({plain['year']}). {plain['title']}.{place}{link}"
