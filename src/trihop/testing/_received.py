"""A request as it came over the wire."""

from __future__ import annotations

import json as _json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

JSON = Any


class ReceivedHeaders(Mapping[str, str]):
    """Header fields, found without regard to case.

    >>> headers = ReceivedHeaders([("Accept", "text/csv"), ("accept", "*/*")])
    >>> headers["ACCEPT"], headers.all("accept")
    ('text/csv, */*', ['text/csv', '*/*'])
    """

    def __init__(self, fields: list[tuple[str, str]]) -> None:
        self.fields = fields  # as sent, in order

    def all(self, name: str) -> list[str]:
        """Every value of this field, in order; none is an empty list."""
        return [value for field, value in self.fields if field.lower() == name.lower()]

    def __getitem__(self, name: str) -> str:
        if values := self.all(name):
            return ", ".join(values)
        raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and bool(self.all(name))

    def __iter__(self) -> Iterator[str]:
        return iter({field.lower(): field for field, _ in reversed(self.fields)}.values())

    def __len__(self) -> int:
        return len({field.lower() for field, _ in self.fields})

    def __repr__(self) -> str:
        return f"ReceivedHeaders({', '.join(self)})"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReceivedCall:
    """A request that a `ScriptedServer` got.

    Args:
        method: As on the wire.
        path: The request target as on the wire, query included, nothing decoded.
        headers: Header fields.
        body: The body, chunking undone; what came of it, if the client broke off.
        at: When its head had come, seconds of the server's clock (`monotonic`).
        connection: Which connection it came over, counted from 1.
    """

    method: str
    path: str
    headers: ReceivedHeaders
    body: bytes
    at: float
    connection: int

    @property
    def query(self) -> dict[str, str]:
        """The query, decoded; of a name given twice the last value."""
        return dict(parse_qsl(self.path.partition("?")[2], keep_blank_values=True))

    @property
    def text(self) -> str:
        """The body as UTF-8."""
        return self.body.decode(errors="replace")

    def json(self) -> JSON:
        """The body as JSON.

        Raises:
            ValueError: It is not JSON.
        """
        return _json.loads(self.body)

    def __repr__(self) -> str:
        return f"ReceivedCall({self.method!r}, {self.path!r}, {len(self.body)} bytes)"
