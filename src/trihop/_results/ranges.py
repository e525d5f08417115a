"""Going on where a transfer broke off: what may be asked for, and what an answer to it is, as decisions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from trihop._wire.network import MOST_DIGITS, announced_bytes

_SIZE = rf"([0-9]{{1,{MOST_DIGITS}}})"
_CONTENT_RANGE = re.compile(rf"bytes\s+{_SIZE}-{_SIZE}/(?:{_SIZE}|\*)", re.IGNORECASE)
_UNSATISFIED = re.compile(rf"bytes\s+\*/{_SIZE}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Representation:
    """What bytes belong to: one representation (RFC 9110 section 3.2) of a result, by the marks it came with.

    Args:
        etag: Its entity tag, if it is a strong one.
        modified: Its `Last-Modified`, if that is strong enough for a validator.
        total_bytes: Its size, where the server said.
        ranged: Whether the server may be asked for a part; False where it says that it may not.
        coding: Its content coding; empty for none.
    """

    etag: str | None = None
    modified: str | None = None
    total_bytes: int | None = None
    ranged: bool = True
    coding: str = ""

    @property
    def validator(self) -> str | None:
        """What `If-Range` can be asked with."""
        return self.etag if self.etag is not None else self.modified


@dataclass(frozen=True, slots=True)
class Rest:
    """The answer has what is missing, or a part of it.

    Args:
        skip_bytes: Bytes at its begin that are there already.
        size_bytes: Bytes it has in all.
        of: The representation, its size known by now.
    """

    skip_bytes: int
    size_bytes: int
    of: Representation


@dataclass(frozen=True, slots=True)
class Whole:
    """The answer begins with the first byte: what is there is to be forgotten."""


@dataclass(frozen=True, slots=True)
class Complete:
    """Nothing is missing."""


@dataclass(frozen=True, slots=True)
class Unusable:
    """The answer does not fit what is there; ask for all of it."""

    reason: str


RestOutcome = Rest | Whole | Complete | Unusable


def representation_of(headers: Mapping[str, str]) -> Representation:
    """What the headers of a whole answer say of it.

    A weak entity tag is no validator here: of two answers that share it the bytes
    may differ. `Last-Modified` is one if the clock that made it had moved on by
    `Date`; else a second change in the same second would go unseen.

    Source: RFC 9110 sections 8.8.1, 8.8.2.2 and 13.1.5.
    """
    etag = headers.get("ETag", "").strip()
    coding = headers.get("Content-Encoding", "").strip().lower()
    return Representation(
        etag=etag if etag.startswith('"') else None,
        modified=_strong_date(headers),
        total_bytes=None if "Transfer-Encoding" in headers else announced_bytes(headers),
        ranged=headers.get("Accept-Ranges", "").strip().lower() != "none",
        coding="" if coding == "identity" else coding,
    )


def _strong_date(headers: Mapping[str, str]) -> str | None:
    from email.utils import parsedate_to_datetime

    modified = headers.get("Last-Modified")
    try:
        age = parsedate_to_datetime(headers["Date"]) - parsedate_to_datetime(modified or "")
        return modified if age.total_seconds() >= 1 else None
    except (KeyError, ValueError, TypeError, IndexError, OverflowError):
        return None


def ask_for_rest(of: Representation, held_bytes: int, *, checked: bool) -> dict[str, str] | None:
    """The headers that ask for what is missing; None where all of it has to be asked for.

    Args:
        of: What the bytes belong to.
        held_bytes: How many there are, from the first on.
        checked: Whether a digest will tell if the rest was of another representation.
    """
    if held_bytes <= 0 or not of.ranged or (of.validator is None and not checked):
        return None
    return {"Range": f"bytes={held_bytes}-"} | ({} if of.validator is None else {"If-Range": of.validator})


def judge_rest(
    status_code: int, headers: Mapping[str, str], of: Representation, held_bytes: int, *, checked: bool
) -> RestOutcome | None:
    """What an answer to `ask_for_rest` is; None where its status says nothing of ranges.

    Args:
        status_code, headers: Of the answer.
        of, held_bytes, checked: As they were asked with.

    Source: RFC 9110 sections 14.4, 15.3.7 and 15.5.17; and what servers make of it.
    """
    if status_code == 416:
        unsatisfied = _UNSATISFIED.fullmatch(headers.get("Content-Range", "").strip())
        total = int(unsatisfied[1]) if unsatisfied is not None else of.total_bytes
        return Complete() if total == held_bytes else Unusable("range_not_satisfiable")
    if status_code not in (200, 206):
        return None
    span = _CONTENT_RANGE.fullmatch(headers.get("Content-Range", "").strip())
    if span is None:
        return Whole() if status_code == 200 else Unusable("no_content_range")  # or several ranges, not asked for
    first, after = int(span[1]), int(span[2]) + 1
    total = of.total_bytes if span[3] is None else int(span[3])
    if status_code == 200 and first == 0 and after == total:
        return Whole()
    if total != of.total_bytes and of.total_bytes is not None:
        return Unusable("representation_changed")
    if not _same(headers, of, checked):
        return Unusable("representation_changed")
    if first > held_bytes or after <= held_bytes or (total is not None and after > total):
        return Unusable("range_mismatch")
    return Rest(held_bytes - first, after - first, replace(of, total_bytes=total))


def _same(headers: Mapping[str, str], of: Representation, checked: bool) -> bool:
    """Whether a part is of the representation that is there: its validators have to say so, or a digest will."""
    coding = headers.get("Content-Encoding", "").strip().lower()
    if coding not in ("", "identity") and coding != of.coding:
        return False
    if of.etag is not None:
        etag = headers.get("ETag", "").strip()
        return etag == of.etag or (not etag and checked)
    if of.modified is not None:
        modified = headers.get("Last-Modified")
        return modified == of.modified or (modified is None and checked)
    return checked


def stray(status_code: int, headers: Mapping[str, str]) -> str | None:
    """Why an answer to a request for all of it is only a part of it; None where it is all."""
    span = _CONTENT_RANGE.fullmatch(headers.get("Content-Range", "").strip())
    if span is None:
        return "no_content_range" if status_code == 206 else None
    whole = int(span[1]) == 0 and span[3] is not None and int(span[2]) + 1 == int(span[3])
    return None if whole else "range_mismatch"
