"""The code in the book's pages: each block between fences is a program of its own."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import artefacts

DOCS = artefacts.ROOT / "docs"
# What is run, and what is only to be read.
RUN = ("python", "js", "c", "rust")
READ = ("text", "sh", "go", "json", "http", "output")
# A block of another library's, to stand beside ours; only its syntax is checked.
THEIRS = "<!-- theirs -->"
BLOCK = re.compile(
    r"(?P<theirs>^<!-- theirs -->\n+)?^```(?P<language>\S*)[^\n]*\n(?P<text>.*?)^```$"
    r"(?:\n\n```output\n(?P<output>.*?)^```$)?",
    flags=re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Snippet:
    page: str
    number: int
    language: str
    text: str
    theirs: bool
    # What it prints, where the page shows that.
    output: str | None

    def __str__(self) -> str:
        return f"{self.page.removesuffix('.md').replace('/', '-')}-{self.number}"

    def program(self) -> str:
        """A name for a program in any language."""
        return "book_" + re.sub(r"\W", "_", str(self))


def pages() -> list[str]:
    return sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))


def snippets(page: str) -> list[Snippet]:
    text = (DOCS / page).read_text()
    return [
        Snippet(page, number, block["language"], block["text"], block["theirs"] is not None, block["output"])
        for number, block in enumerate(BLOCK.finditer(text), start=1)
    ]


def table(page: Path, heading: str) -> list[list[str]]:
    """The rows of the first table below a heading, without its first two lines; cells without backquotes."""
    lines = iter(page.read_text().splitlines())
    for line in lines:
        if line.lstrip("#") == f" {heading}":
            break
    rows: list[list[str]] = []
    for line in lines:
        if line.startswith("|"):
            cells = re.split(r"(?<!\\)\|", line.strip().strip("|"))
            rows.append([cell.strip().replace("`", "") for cell in cells])
        elif rows or line.startswith("#"):
            break
    assert len(rows) > 2, f"{page.name} has no table below {heading!r}"
    return rows[2:]
