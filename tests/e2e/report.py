"""Tables of what was measured, shown at the end of a test run whether it passes or not."""

from __future__ import annotations

from collections.abc import Sequence


class Table:
    def __init__(self, title: str, columns: Sequence[str]) -> None:
        self.title = title
        self._rows: list[list[str]] = [list(columns)]

    def row(self, *cells: object) -> None:
        self._rows.append([f"{cell:.1f}" if isinstance(cell, float) else str(cell) for cell in cells])

    def lines(self) -> list[str]:
        widths = [max(len(cell) for cell in column) for column in zip(*self._rows, strict=True)]
        columns = zip(*self._rows[1:], strict=True)
        numbers = [all(cell.lstrip("+-")[:1].isdigit() for cell in column) for column in columns]
        return [
            "  ".join(
                cell.rjust(width) if number else cell.ljust(width)
                for cell, width, number in zip(row, widths, numbers, strict=True)
            ).rstrip()
            for row in self._rows
        ]


TABLES: dict[str, Table] = {}


def table(title: str, *columns: str) -> Table:
    """The table of this title, which all tests that name it write to."""
    return TABLES.setdefault(title, Table(title, columns))
