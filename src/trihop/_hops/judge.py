"""Submit, poll and download as decisions: a reply goes in, a verdict comes out.

The HTTP status is judged first. A surface is never shown a 404 or a gateway's
page unless it `accepts` that status; 2xx are always its business, and on submit and
poll 301-303.
What it accepts and then cannot read is judged by its status after all.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trihop._arguments import WrongType, WrongValue
from trihop._surface import DownloadSurface, PollSurface, SubmitSurface, accepted
from trihop._values import JSON, Garbled, Job, Reply, Result
from trihop._verdicts import (
    Accepted,
    Content,
    DownloadVerdict,
    Ending,
    Gone,
    LinkExpired,
    Pending,
    PollVerdict,
    Rejected,
    SubmitVerdict,
    Transient,
)

# A later attempt may be answered otherwise: RFC 9110 section 15.5.9 (408) and 15.6,
# RFC 8470 (425), RFC 6585 (429), and what vendors add above 500 (529 and the like).
_TRY_LATER = frozenset({408, 425, 429})

# What a surface may stumble over in a body it did not expect. Anything else it
# raises is a fault in its code and reaches the caller as it is.
_STUMBLES = (ValueError, LookupError, TypeError, AttributeError)


@dataclass(frozen=True, slots=True)
class Refused:
    """The status monitor refuses for good."""

    status_code: int


@dataclass(frozen=True, slots=True)
class Lost:
    """A status monitor that answered before knows the job no more."""

    status_code: int


@dataclass(frozen=True, slots=True)
class SignIn:
    """401: worth another try only with other credentials."""


@dataclass(frozen=True, slots=True)
class Nonsense:
    """A surface's answer that is no verdict, or a 2xx that it could not read; `fault` says which."""

    what: str
    fault: bool = False


SubmitOutcome = SubmitVerdict | Nonsense
PollOutcome = PollVerdict | Refused | Lost | SignIn | Nonsense
DownloadOutcome = DownloadVerdict | Nonsense


def try_later(status_code: int) -> bool:
    """Whether a status says "not now" rather than "no"; one below 200 says nothing of what is to come."""
    return status_code in _TRY_LATER or status_code >= 500 or status_code < 200


def shown(status_code: int, surface: object) -> bool:
    """Whether the surface is the judge of this status."""
    return 200 <= status_code < 300 or status_code in (301, 302, 303) or accepted(surface, status_code)


def judge_submit(reply: Reply, surface: SubmitSurface) -> SubmitOutcome:
    """What the answer to a submit means."""
    verdict = _read(surface, reply, (reply,), (Accepted, Rejected, Pending, Transient, Ending))
    match verdict:
        case None:
            return Transient(str(reply.status_code)) if try_later(reply.status_code) else Rejected(said(reply))
        case Pending():
            return Accepted(status_url=verdict.status_url, after=verdict.after, memo=verdict.memo or {})
        case _:
            return verdict  # type: ignore[no-any-return]


def judge_poll(
    reply: Reply, job: Job, surface: PollSurface, *, answered: bool, age_s: float, grace_s: float
) -> PollOutcome:
    """What one answer of the status monitor means.

    Args:
        reply: The answer.
        job: The job as known so far.
        surface: The judge of what the status leaves open.
        answered: Whether an earlier poll was answered.
        age_s: Seconds since the submit.
        grace_s: Seconds after the submit in which 404 is "not visible yet".
    """
    status = reply.status_code
    verdict = _read(surface, reply, (reply, job), (Pending, Transient, Ending))
    if verdict is not None:
        # A page that cannot be read is a poll that failed, never a job that did.
        return Transient(verdict.what) if isinstance(verdict, Nonsense) and not verdict.fault else verdict
    if try_later(status):
        return Transient(str(status))
    if status == 401:
        return SignIn()
    if status == 404 and not answered and age_s < grace_s:
        return Pending("not visible yet")
    if status in (404, 410) and answered:
        return Lost(status)
    return Refused(status)


def judge_download(reply: Reply, result: Result, surface: DownloadSurface) -> DownloadOutcome:
    """What the answer to a download means; the body is still to come."""
    status = reply.status_code
    if status in (301, 302, 303) and not accepted(surface, status):
        return Transient("bad_redirect")  # one that could be followed was
    verdict = _read(surface, reply, (reply, result), (Content, Pending, LinkExpired, Gone, Transient))
    if verdict is not None:
        return verdict  # type: ignore[no-any-return]
    if try_later(status):
        return Transient(str(status))
    if status in (401, 403):
        return LinkExpired(str(status))
    return Gone(str(status))


def _read(surface: Callable[..., Any], reply: Reply, arguments: tuple[object, ...], verdicts: tuple[type, ...]) -> Any:
    """The surface's verdict; None where the status is all there is to judge by."""
    if not shown(reply.status_code, surface):
        return None
    try:
        verdict = surface(*arguments)
    except (WrongType, WrongValue) as wrong:
        return Nonsense(f"the surface made a verdict that cannot be: {wrong}", fault=True)
    except _STUMBLES as stumble:
        if reply.status_code >= 400:
            return None
        return Nonsense(stumble.kind if isinstance(stumble, Garbled) else f"unreadable ({type(stumble).__name__})")
    if not isinstance(verdict, verdicts):
        names = ", ".join(kind.__name__ for kind in verdicts)
        return Nonsense(f"the surface returned {type(verdict).__name__}, expected one of {names}", fault=True)
    return verdict


def said(reply: Reply) -> JSON:
    """What a refusal says, as the server gave it: its JSON, else the begin of its text."""
    try:
        return reply.json()
    except ValueError:
        words = reply.text[:500].split()
        # A word that is cut in two might be half of a secret, which nobody would know for one.
        return " ".join(words[:-1] if len(reply.text) > 500 and len(words) > 1 else words) or None


_CODE = re.compile(r"^([A-Z][A-Z0-9_]{2,63}): ")
_CODES = ("code", "errorCode", "error_code", "type", "status", "error", "__type")
_MESSAGES = (
    "message",
    "errorMessage",
    "error_message",
    "detail",
    "title",
    "error_description",
    "diagnostics",
    "Message",
)


def error_fields(error: JSON) -> tuple[str | None, str | None]:
    """Code and message of an error as servers give it: text, object, or a list of these.

    >>> error_fields("INVALID_FIELD: no such column")
    ('INVALID_FIELD', 'INVALID_FIELD: no such column')
    >>> error_fields({"error": {"code": 7, "message": "no"}})
    ('7', 'no')
    """
    if error in (None, "", [], {}):
        return None, None
    match error:
        case str():
            match_ = _CODE.match(error)
            return match_ and match_.group(1), error
        case [first, *_]:
            return error_fields(first)
        case {"error": dict() as inner} | {"issue": [dict() as inner, *_]}:  # the latter is FHIR's OperationOutcome
            return error_fields(inner)
        case dict():
            code = next((error[name] for name in _CODES if error.get(name) is not None), None)
            message = next((error[name] for name in _MESSAGES if error.get(name)), None)
            return None if code is None else str(code), None if message is None else str(message)
        case other:
            return None, str(other)
