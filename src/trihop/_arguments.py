"""Wrong calls, told where they are made: what was expected, and what came instead.

What came is told by its type, as a text might be a secret.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")

LONGEST_KEY = 512

_SHA256 = re.compile(r"[0-9A-Fa-f]{64}")


class WrongType(TypeError):
    """A `TypeError` of a call to trihop, told apart from one that a surface stumbles into."""


class WrongValue(ValueError):
    """A `ValueError` of a call to trihop, likewise."""


def told(value: object) -> str:
    """What came, in a word."""
    return repr(value) if value is None or isinstance(value, (bool, int, float)) else type(value).__name__


def expect(value: object, kinds: type[T] | tuple[type[T], ...], where: str, takes: str) -> T:
    """The value, if it is of these kinds; a bool is no number.

    Raises:
        WrongType: It is not.
    """
    wants_bool = kinds is bool or (isinstance(kinds, tuple) and bool in kinds)
    if not isinstance(value, kinds) or (isinstance(value, bool) and not wants_bool):
        raise WrongType(f"{where} takes {takes}, got {told(value)}")
    return value


def expect_callable(value: object, where: str, takes: str) -> None:
    """Refuse what cannot be called, and a class where a function is meant.

    Raises:
        WrongType: It is no function.
    """
    if not callable(value):
        raise WrongType(f"{where} takes {takes}, got {told(value)}")


def expect_texts(value: object, where: str, takes: str) -> None:
    """Refuse what is no mapping of texts to anything.

    Raises:
        WrongType: It is no mapping, or has a key that is no text.
    """
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise WrongType(f"{where} takes {takes}, got {told(value)}")


def expect_key(value: object, where: str) -> None:
    """Refuse what cannot be the key of an operation: every store has it in an index, and people type it.

    Raises:
        WrongType, WrongValue: It is no text, or none that can be.
    """
    takes = f"a text in one line, of at most {LONGEST_KEY} characters"
    key = expect(value, str, where, takes)
    if not key.strip():
        raise WrongValue(f"{where} takes {takes}, got an empty one")
    if len(key) > LONGEST_KEY:
        raise WrongValue(f"{where} takes {takes}, got {len(key)}; a digest of it would do")
    if not key.isprintable():
        raise WrongValue(f"{where} takes {takes}, got one with characters that cannot be shown")


def expect_sha256(value: object, where: str) -> None:
    """Refuse what is no SHA-256 digest in hex.

    Raises:
        WrongType, WrongValue: It is none.
    """
    text = expect(value, str, where, "a SHA-256 digest as 64 hex digits")
    if not _SHA256.fullmatch(text):
        raise WrongValue(f"{where} takes a SHA-256 digest as 64 hex digits, got {len(text)} characters")


def expect_size(value: object, where: str, takes: str) -> None:
    """Refuse what is no whole number, 0 or more.

    Raises:
        WrongType, WrongValue: It is none.
    """
    if expect(value, int, where, takes) < 0:
        raise WrongValue(f"{where} takes {takes}, got {value}")


def expect_seconds(value: object, where: str) -> None:
    """Refuse what is no number of seconds, 0 or more.

    Raises:
        WrongType, WrongValue: It is none.
    """
    seconds = expect(value, (int, float), where, "seconds, 0 or more")
    if math.isnan(seconds) or seconds < 0:
        raise WrongValue(f"{where} takes seconds, 0 or more, got {value}")


def text_of(value: object, where: str) -> str:
    """A text; a number is its digits, as APIs have ids and states of both kinds.

    Raises:
        WrongType: It is neither.
    """
    return value if isinstance(value, str) else str(expect(value, (str, int), where, "a text"))


def text_or_none(value: object, where: str) -> str | None:
    """Likewise, or None.

    Raises:
        WrongType: It is none of these.
    """
    return None if value is None else text_of(value, where)


def number_or_none(value: object) -> float | None:
    """A finite number, also from a text such as "42" or "42 %"; None for anything else."""
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return float(value) if abs(value) < math.inf else None
    written = str(value)
    match = re.fullmatch(r"\s*(-?\d+(?:\.\d+)?)\s*%?\s*", written) if len(written) <= 40 else None
    return float(match.group(1)) if match else None
