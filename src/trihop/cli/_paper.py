"""The sheet a picture is drawn on: so many columns, in an encoding, in plain or styled text.

Everything that came from elsewhere passes through `Paper.text`: it is text, never markup and never a control sequence.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.console import Console
from rich.text import Text

from trihop.viewer import plain

NARROWEST = 60
_BREAKS = re.compile(r" (?!(?:ms|s|m|h|d|B|kB|MB|GB|TB)\b)")  # a number stays with its unit


class Piece(NamedTuple):
    """Some text in one style; the styles are named in `_STYLES`."""

    text: str
    style: str = ""


Line = tuple[Piece, ...]

_STYLES = {
    "": "",
    "title": "bold",
    "dim": "dim",
    "bar": "cyan",
    "pause": "dim cyan",
    "ok": "bold cyan",
    "changed": "bold yellow",
    "error": "bold red",
    "result": "green",
}


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters of a picture; each differs from the others in shape, not in colour alone."""

    bar: str
    pause: str
    folded: str
    ok: str
    changed: str
    error: str
    instant: str
    tick: str
    pipe: str
    branch: str
    corner: str
    cut: str
    dot: str


_LINES = Glyphs("━", "─", "┈", "┼", "◆", "✗", "◇", "╷", "│ ", "├ ", "└ ", "…", "·")
_ASCII = Glyphs("=", "-", ".", "|", "o", "x", "+", "'", "| ", "|-", "`-", "~", "|")
_SPELT = {"…": "...", "·": "|", "\N{RIGHT SINGLE QUOTATION MARK}": "'", "\N{EN DASH}": "-", "\N{EM DASH}": "-"}


@dataclass(frozen=True)
class Paper:
    """Where to draw: columns, and the encoding that decides between line drawing and ASCII."""

    width: int = 80
    encoding: str = "utf-8"

    @cached_property
    def glyphs(self) -> Glyphs:
        """Line drawing where the encoding has all of it, else ASCII."""
        return _LINES if _has("".join(getattr(_LINES, name) for name in Glyphs.__slots__), self.encoding) else _ASCII

    def text(self, value: str) -> str:
        """Any text as it may be printed: on one line, without control characters, in this paper's encoding."""
        value = plain(value)
        if self.glyphs is _LINES:
            return value
        spelt = "".join(_SPELT.get(character, character) for character in value)
        return spelt.encode(self.encoding, "backslashreplace").decode(self.encoding)

    def fit(self, value: str, columns: int) -> str:
        """Text padded or cut to exactly so many columns, wide characters counted as two."""
        value = self.text(value)
        if cell_len(value) <= columns:
            return set_cell_size(value, columns)
        return set_cell_size(value, columns - 1) + self.glyphs.cut

    def wrap(self, value: str, columns: int) -> list[str]:
        """Text broken at spaces into lines of at most so many columns; a longer word is broken where it must."""
        lines: list[str] = []
        line = ""
        for word in _BREAKS.split(self.text(value)):
            joined = f"{line} {word}" if line else word
            if cell_len(joined) <= columns:
                line = joined
                continue
            if line:
                lines.append(line)
            *full, line = chop_cells(word, columns) or [""]
            lines += full
        return [*lines, line]


def _has(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def console(*, stderr: bool = False) -> Console:
    """Standard output as a console: no escape codes on a pipe, on a dumb terminal or under NO_COLOR."""
    # rich takes NO_COLOR to mean "no colour, but bold"; whoever sets it wants plain text.
    plain_text = bool(os.environ.get("NO_COLOR"))
    return Console(
        stderr=stderr, color_system=None if plain_text else "auto", highlight=False, markup=False, emoji=False
    )


def paper(to: Console) -> Paper:
    """The paper that a console offers. Below 60 columns a picture says nothing: lines run over instead."""
    return Paper(max(to.width, NARROWEST), to.encoding)


def text_of(line: Line) -> Text:
    """A line as rich has it."""
    text = Text.assemble(*((piece.text, _STYLES[piece.style]) for piece in line))
    text.rstrip()
    return text


def show(lines: Iterable[Line], to: Console) -> None:
    """Print lines as they are: nothing is wrapped, cropped or read as markup."""
    for line in lines:
        to.print(text_of(line), soft_wrap=True)
