"""The tables of providers in docs/providers.md and README.md, made from the providers and the text below each.

    python -m tests.docs_tables

What can be read off a `Provider` is read off it: its name, the words of its states, how it cancels, its
idempotency header. The rest are lines such as `Result: …` in the text below it.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import trihop.providers
from trihop import Call, Job, Provider, ReadState

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "providers.md"
README = ROOT / "README.md"
MODULES = Path(trihop.providers.__file__).parent
BEGIN, END = "<!-- providers: made by `make providers` -->", "<!-- end of providers -->"

_COLUMNS = ("Provider", "States", "Result", "Paging", "Cancel", "Idempotency", "Deadline", "Checked against", "Source")
_SHORT = ("Provider", "Result", "Cancel", "Idempotency", "Checked against")
_NONE = "-"
_REQUIRED = ("Result", "Checked", "Source")
_KNOWN = (*_REQUIRED, "States", "Paging", "Cancel", "Idempotency", "Deadline")
_LINE = re.compile(rf"^({'|'.join(_KNOWN)}): (.+(?:\n +.+)*)", re.MULTILINE)
_ENDINGS = ("succeeded", "failed", "cancelled", "expired", "ambiguous")
_JOB = Job(id="ID", status_url="https://api.test/STATUS", submit_url="https://api.test/SUBMIT")


@dataclass(frozen=True)
class Entry:
    """A provider, or a function that makes one, and what its module says of it."""

    module: str
    name: str
    text: str
    provider: Provider | None

    @property
    def shown(self) -> str:
        """As one writes it."""
        return f"{self.module}.{self.name}"

    @property
    def said(self) -> dict[str, str]:
        """The lines of its text, by their first word."""
        return {name: " ".join(text.split()) for name, text in _LINE.findall(inspect.cleandoc(self.text))}


def entries() -> list[Entry]:
    """Every provider that ships, by module and then in the order of the source."""
    return [
        entry
        for path in sorted(MODULES.glob("*.py"), key=lambda path: (path.stem != "generic", path.stem))
        if not path.stem.startswith("_")
        for entry in _entries_of(path)
    ]


def table(columns: tuple[str, ...] = _COLUMNS) -> str:
    """The rows, in Markdown, with these of the columns.

    Raises:
        ValueError: A provider does not say what it should; the message lists all of these.
    """
    found = entries()
    missing = [
        f"{entry.shown}: {', '.join(f'{name}: …' for name in _REQUIRED if name not in entry.said)}"
        for entry in found
        if not set(_REQUIRED) <= set(entry.said)
    ]
    if missing:
        raise ValueError("say below these providers what they lack:\n  " + "\n  ".join(missing))
    chosen = [_COLUMNS.index(column) for column in columns]
    head = [_row(columns), _row(["---"] * len(columns))]
    rows = (cells(entry) for entry in found)
    return "\n".join([*head, *(_row([row[index] for index in chosen]) for row in rows)])


def cells(entry: Entry) -> list[str]:
    """One row: what the module says, else what the provider shows."""
    said, provider = entry.said, entry.provider
    source = said["Source"]
    return [
        f"`{entry.shown}`",
        said.get("States") or (_states(provider) if provider else _NONE),
        said["Result"],
        said.get("Paging", _NONE),
        said.get("Cancel") or (_cancel(provider) if provider else _NONE),
        said.get("Idempotency") or (f"`{provider.idempotency}`" if provider and provider.idempotency else _NONE),
        said.get("Deadline", _NONE),
        said["Checked"],
        f"[{urlsplit(source).hostname}]({source})" if source.startswith("https://") else source,
    ]


def page(text: str, columns: tuple[str, ...] = _COLUMNS) -> str:
    """The page with a fresh table between its marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table(columns)}\n\n{END}{after}"


def readme(text: str) -> str:
    """README.md with a fresh table."""
    return page(text, _SHORT)


def _row(cells: list[str] | tuple[str, ...]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _entries_of(path: Path) -> Iterator[Entry]:
    module = importlib.import_module(f"trihop.providers.{path.stem}")
    body = ast.parse(path.read_text()).body
    for statement, following in zip(body, [*body[1:], None], strict=True):
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)]) if isinstance(getattr(module, name), Provider):
                if not name.startswith("_"):
                    yield Entry(path.stem, name, _text(following), getattr(module, name))
            case ast.FunctionDef(name=name, returns=ast.Name(id="Provider")) if not name.startswith("_"):
                function = getattr(module, name)
                required = [
                    parameter.name
                    for parameter in inspect.signature(function).parameters.values()
                    if parameter.default is parameter.empty
                ]
                made = function(*["https://api.test/v1" if name == "root" else name for name in required])
                yield Entry(path.stem, f"{name}({', '.join(required) or '…'})", function.__doc__ or "", made)
            case _:
                pass


def _text(statement: ast.stmt | None) -> str:
    match statement:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return text
        case _:
            return ""


def _states(provider: Provider) -> str:
    poll = provider.poll
    if not isinstance(poll, ReadState):
        return "read by a function"
    told = [_words(poll.pending)]
    told += [f"{kind}: {_words(words)}" for kind in _ENDINGS if (words := list(getattr(poll, kind)))]
    if poll.bad_items is not None:
        told.insert(2, "partial: by count")
    return "; ".join(part for part in told if part)


def _words(words: object) -> str:
    assert not isinstance(words, str)
    return ", ".join(sorted(words))  # type: ignore[call-overload, no-any-return]


def _cancel(provider: Provider) -> str:
    if provider.cancel is None:
        return _NONE
    if isinstance(provider.cancel, Call):
        return f"`{provider.cancel.method} {provider.cancel.url}`"
    call = provider.cancel_call(_JOB)
    return f"`{call.method} {call.url.replace(_JOB.status_url or '', '{status_url}')}`"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
    README.write_text(readme(README.read_text()))
