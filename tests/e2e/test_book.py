"""The book builds without a warning, its links lead somewhere, and its pictures are those of the library."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import artefacts
import draw
import pytest

NUMBER = re.compile(r"-?\d+\.\d+")


class Links(HTMLParser):
    """The links of a page, and the places in it that a link can lead to."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.places: set[str] = {""}
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.places.add(value)
            elif name in ("href", "src") and value is not None:
                self.targets.append(value)


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The book, built as `make book` does. A warning is an error."""
    site = tmp_path_factory.mktemp("book")
    words = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(site)]
    done = subprocess.run(words, cwd=artefacts.ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return site


def test_every_link_in_the_book_leads_somewhere(book: Path) -> None:
    pages = {path: Links(path) for path in book.rglob("*.html") if path.name != "404.html"}
    assert len(pages) > 20
    for path, links in pages.items():
        for target in links.targets:
            if re.match(r"[a-z]+:|//", target):
                continue
            file, _, place = unquote(target).partition("#")
            to = (path.parent / file.partition("?")[0]).resolve() if file else path
            assert to.exists(), f"{path.name}: {target}"
            assert not place or to not in pages or place in pages[to].places, f"{path.name}: {target}"


def test_nothing_in_the_book_is_fetched_from_elsewhere(book: Path) -> None:
    for path in book.rglob("*.html"):
        text = path.read_text()
        fetched = re.findall(r"<(?:script|img|link)\b[^>]*?(?:src|href)=\"(?:https?:)?//[^\"]*", text)
        assert [each for each in fetched if 'rel="canonical"' not in each] == [], path.name


def test_the_quickstarts_are_the_readme_s(book: Path) -> None:
    text = re.sub("<[^>]+>", "", (book / "quickstart.html").read_text())
    for name in ("import sluicegate", "from sluicegate import aio", "sg_limiter_open", "use sluicegate"):
        assert name in text


def test_included_parts_keep_their_form(book: Path) -> None:
    """An indented block at the beginning of a part stays one: the diagram of the states."""
    architecture = (artefacts.ROOT / "ARCHITECTURE.md").read_text()
    first, second = re.findall(r"^    (.*)$", architecture.partition("## Up and out")[2], flags=re.MULTILINE)[
        :2
    ]
    page = html.unescape(re.sub("<[^>]+>", "", (book / "outages.html").read_text()))
    assert f"{first}\n{second}\n" in page


def markdown_files() -> list[Path]:
    """Those outside the book; what was built or installed is not ours."""
    found = []
    for directory, below, names in os.walk(artefacts.ROOT):
        below[:] = [
            name for name in below if name[0] != "." and name not in ("node_modules", "target", "docs")
        ]
        found += [Path(directory) / name for name in names if name.endswith(".md")]
    return sorted(found)


@pytest.mark.parametrize("path", markdown_files(), ids=lambda path: str(path.relative_to(artefacts.ROOT)))
def test_links_between_the_repository_s_files(path: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"[a-z]+:|#", target):
            assert (path.parent / target.partition("#")[0]).exists(), target


def rounded(text: str) -> str:
    """Drawn on another processor, the last digits may be others."""
    return NUMBER.sub(lambda number: f"{float(number[0]):.2f}", text)


def test_the_pictures_are_what_the_library_does(python: Path, tmp_path: Path) -> None:
    traffic = draw.measured(python)
    draw.draw_all(traffic, tmp_path)
    drawn = {path.name: rounded(path.read_text()) for path in tmp_path.iterdir()}
    kept = {path.name: rounded(path.read_text()) for path in draw.PICTURES.iterdir()}
    assert drawn.keys() == kept.keys(), "run `make pictures`"
    assert [name for name in drawn if drawn[name] != kept[name]] == [], "run `make pictures`"


def test_the_pictures_keep_the_promises(python: Path) -> None:
    for spec, calls in draw.measured(python).items():
        went = [gone for _, gone in calls if gone is not None]
        assert len(went) > len(calls) / 4, spec
        most = max(draw.within(went, at, draw.WINDOW) for at in went)
        twice = spec.startswith(("token-bucket", "gcra", "fixed-window"))
        assert most <= (2 if twice else 1) * draw.LIMIT, spec
