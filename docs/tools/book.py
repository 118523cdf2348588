"""What the book needs beside MkDocs, as its hooks: parts of other files, and links to files outside docs/.

    <!-- include: README.md # What is guaranteed -->

on a line of its own stands for the text of that section, without its heading. A link to a file of the
repository is held against the file, and leads to it at the repository's host.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from markdown.extensions.toc import slugify
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r"^<!-- include: (\S+) # (.+) -->$", flags=re.MULTILINE)
HEADING = re.compile(r"^(#{1,6}) +(.+?) *$")
FENCE = re.compile(r"^ *(```+|~~~+)")
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
OUTSIDE = re.compile(r"^[a-z][a-z0-9+.-]*:")


def split(text: str) -> list[tuple[str, bool]]:
    """The lines, each with whether it is code between fences."""
    lines: list[tuple[str, bool]] = []
    fence = ""
    for line in text.splitlines():
        mark = FENCE.match(line)
        code = bool(fence) or mark is not None
        if fence:
            if mark and mark[1].startswith(fence):
                fence = ""
        elif mark:
            fence = mark[1]
        lines.append((line, code))
    return lines


def section(text: str, title: str) -> str:
    """What stands under the heading `title`, with the headings in it raised as if it were the page's."""
    level = 0
    found: list[str] = []
    for line, code in split(text):
        heading = None if code else HEADING.match(line)
        if level and heading and len(heading[1]) <= level:
            return "\n".join(found).strip("\n")
        if level:
            found.append(line[level - 1 :] if heading else line)
        elif heading and heading[2] == title:
            level = len(heading[1])
    if not level:
        raise PluginError(f"there is no heading {title!r} to include")
    return "\n".join(found).strip("\n")


def anchors(text: str) -> set[str]:
    headings = (HEADING.match(line) for line, code in split(text) if not code)
    return {slugify(heading[2], "-") for heading in headings if heading}


def relinked(text: str, place: str, page: str, repository: str) -> str:
    """The text of a file at `place`, on a page of the book: links out of docs/ lead to the repository."""

    def link(match: re.Match[str]) -> str:
        target = match[2]
        if OUTSIDE.match(target) or target.startswith("#"):
            return match[0]
        path, _, anchor = target.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(place), path))
        if path.startswith("docs/"):
            path = posixpath.relpath(path, posixpath.dirname(page))
            return f"{match[1]}{path}{'#' if anchor else ''}{anchor}{match[3]}"
        if not (ROOT / path).exists():
            raise PluginError(f"{place}: the link to {target} leads nowhere")
        if anchor and path.endswith(".md") and anchor not in anchors((ROOT / path).read_text()):
            raise PluginError(f"{place}: {path} has no heading for #{anchor}")
        url = f"{repository.rstrip('/')}/blob/main/{path}"
        return f"{match[1]}{url}{'#' if anchor else ''}{anchor}{match[3]}"

    return "\n".join(line if code else LINK.sub(link, line) for line, code in split(text))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    repository = config.repo_url or ""

    def include(match: re.Match[str]) -> str:
        path, title = match[1], match[2]
        return relinked(section((ROOT / path).read_text(), title), path, place, repository)

    place = posixpath.join("docs", page.file.src_uri)
    return INCLUDE.sub(include, relinked(markdown, place, place, repository))
