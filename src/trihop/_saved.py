"""The record of a durable operation: listed fields as versioned JSON, so that another process can go on.

No credential is a field, and no signed link: a result is recorded by what it
names, and asked for again where that is not enough. The URLs of the job itself
are kept as they are, as there is no going on without them; the file that holds
them is for its owner alone.
"""

from __future__ import annotations

import hashlib
import json as _json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from trihop import _errors as errors
from trihop._errors import JobFailed, OutcomeAmbiguous, TrihopError
from trihop._links import without_signature
from trihop._record import OperationRecord
from trihop._redact import is_signed, redact_url
from trihop._values import JSON, Call, Job, Ready, Result

VERSION = 1

BEGUN, SUBMITTING, SUBMITTED, READY = "begun", "submitting", "submitted", "ready"
"""How far it has come: nothing was sent; the submit went out; there is a job; the job is over."""

_DATA_KEPT_BYTES = 65_536

Migration = Callable[[dict[str, JSON]], dict[str, JSON]]
MIGRATIONS: dict[int, Migration] = {}
"""From a version to the one after it. A release that writes version n reads all before n and refuses those after."""


class NewerRecord(ValueError):
    """The record was written by a later release."""


class BrokenRecord(ValueError):
    """It is no record of ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """An operation as another process finds it. Instants are seconds (or, where they end in `_ns`, nanoseconds) since
    the epoch; all fields are plain JSON.
    """

    name: str
    key: str
    operation_id: str
    provider: str
    started_ns: int
    touched_ns: int
    """When it was last written, by the writer's own clock."""
    deadline_at: float | None = None
    deadline_s: float | None = None
    """What the deadline was at first, from the start."""
    phase: str = BEGUN
    submit: dict[str, JSON] | None = None
    """method, url (redacted), digest of the payload, at, keyed; payload only where that was asked for."""
    idempotency_key: str | None = None
    once: dict[str, JSON] = field(default_factory=dict)
    job_id: str | None = None
    job: dict[str, JSON] | None = None
    state: str | None = None
    status_code: int | None = None
    submitted_at: float | None = None
    polls: int = 0
    progress: float | None = None
    next_check_at: float | None = None
    poll: dict[str, JSON] | None = None
    """The poll hop while it lasts: reserved span_id, started_ns, fold, and the poller's counts."""
    trace: dict[str, JSON] | None = None
    """trace_id, span_id of the root, tracestate, sampled: reserved for whoever ends the operation."""
    segments: int = 1
    ready: dict[str, JSON] | None = None
    files: list[dict[str, JSON]] = field(default_factory=list)
    stopped: str | None = None
    """The error with which an earlier visit stopped and left the operation open."""
    outcome: dict[str, JSON] | None = None
    """result; hop, and error where it did not end well."""
    reconcile: bool = False
    """A person must look: whether there is a job, or how it ended, is not known."""

    def as_json(self) -> dict[str, JSON]:
        """Plain JSON, with its version."""
        return {"version": VERSION, **{name: getattr(self, name) for name in _FIELDS}}

    @classmethod
    def from_json(cls, data: Mapping[str, JSON]) -> Saved:
        """The record that was written, by this release or an earlier one; fields it does not know are passed over.

        Raises:
            NewerRecord: A later release wrote it.
            BrokenRecord: It is none.
        """
        version = data.get("version") if isinstance(data, Mapping) else None
        if type(version) is not int:
            raise BrokenRecord("it has no version")
        if version > VERSION:
            raise NewerRecord(f"it is of version {version}, and this release reads versions up to {VERSION}")
        found = dict(data)
        for step in range(version, VERSION):
            found = MIGRATIONS[step](found)
        try:
            saved = cls(**{name: found[name] for name in _FIELDS if name in found})
        except TypeError as error:
            raise BrokenRecord(str(error).replace("Saved.__init__() ", "")) from None
        if saved.phase not in (BEGUN, SUBMITTING, SUBMITTED, READY):
            raise BrokenRecord(f"its phase is {saved.phase!r}")
        return saved

    @property
    def ended(self) -> bool:
        """Whether it has its ending."""
        return self.outcome is not None

    def record(self) -> OperationRecord:
        """What an error carries of it."""
        trace_id = None if self.trace is None else self.trace["trace_id"]
        hop = {BEGUN: None, SUBMITTING: "submit", SUBMITTED: "poll", READY: "download"}[self.phase]
        elapsed_s = (self.touched_ns - self.started_ns) / 1e9
        return OperationRecord(
            self.name,
            self.operation_id,
            self.key,
            trace_id,
            hop,
            job_from(self.job),
            self.status_code,
            self.polls,
            elapsed_s,
        )


_FIELDS = tuple(one.name for one in fields(Saved))


# ---- what is sent


def digest_of(method: str, url: str, as_in_requests: Mapping[str, Any]) -> str:
    """The sha256 in hex of what a submit asks for; headers, which change with each sign-in, left out.

    A file, or whatever else can be read only once, counts as being there.

    >>> digest_of("POST", "https://api.example/jobs", {"json": {"a": 1, "b": 2}})[:16]
    'a1c7baf47cb7fa56'
    """
    seen = hashlib.sha256(f"{method.upper()} {redact_url(url)}\n".encode("utf-8", "replace"))
    for part in ("params", "json", "data", "files"):
        value = as_in_requests.get(part)
        if value is None:
            continue
        seen.update(f"{part}:".encode())
        if isinstance(value, (bytes, bytearray)):
            seen.update(value)
        else:
            seen.update(_json.dumps(value, sort_keys=True, default=_opaque).encode("utf-8", "replace"))
    return seen.hexdigest()


def _opaque(value: object) -> JSON:
    if isinstance(value, (bytes, bytearray)):
        return hashlib.sha256(value).hexdigest()
    if isinstance(value, Mapping):
        return dict(value)
    return type(value).__name__


def payload_of(as_in_requests: Mapping[str, Any]) -> dict[str, JSON]:
    """The payload itself, for whoever asked to have it stored: params, json and data.

    Raises:
        TypeError: It is not JSON, such as a file.
    """
    kept = {part: as_in_requests[part] for part in ("params", "json", "data") if as_in_requests.get(part) is not None}
    if as_in_requests.get("files"):
        raise TypeError("store_payload=True keeps params, json and data; files cannot be kept")
    try:
        plain: dict[str, JSON] = _json.loads(_json.dumps(kept))
    except (TypeError, ValueError):
        raise TypeError("store_payload=True keeps a payload that is JSON; this one is not") from None
    return plain


# ---- the job and what it left


def job_as_json(job: Job | None) -> dict[str, JSON] | None:
    """A job's fields; never user:password."""
    if job is None:
        return None
    return {
        "id": job.id,
        "status_url": _without_user(job.status_url),
        "submit_url": _without_user(job.submit_url),
        "submit_method": job.submit_method,
        "state": job.state,
        "memo": dict(job.memo),
    }


def _without_user(url: str | None) -> str | None:
    if url is None or "@" not in url:
        return url
    try:
        authority_at = url.index("//") + 2
    except ValueError:
        return url
    authority, slash, rest = url[authority_at:].partition("/")
    return url[:authority_at] + authority.rpartition("@")[2] + slash + rest


def job_from(data: Mapping[str, JSON] | None) -> Job | None:
    """The job that was recorded."""
    return None if data is None else Job(**{name: data[name] for name in _JOB_FIELDS if name in data})


_JOB_FIELDS = ("id", "status_url", "submit_url", "submit_method", "state", "memo")


def ready_as_json(ready: Ready, *, only_once: bool = False) -> dict[str, JSON]:
    """How a job ended, and what its results are called; `only_once` where no monitor could be asked again."""
    return {
        "state": ready.state,
        "counts": ready.counts,
        "complete": ready.complete,
        "results": [_result_as_json(result, only_once) for result in ready.results],
    }


def _result_as_json(result: Result, only_once: bool) -> dict[str, JSON]:
    known: dict[str, JSON] = {"name": result.name, "size_bytes": result.size_bytes, "sha256": result.sha256}
    if isinstance(result.at, str):
        plain = _without_user(result.at)
        if not is_signed(result.at) and plain == result.at and not result.single_use and redact_url(plain) == plain:
            return {**known, "at": result.at}
        return {**known, "at": without_signature(redact_url(result.at)), "again": True}
    if isinstance(result.at, Call):
        return {**known, "at": without_signature(redact_url(result.at.url)), "again": True}
    if only_once and len(_json.dumps(result.data, default=str)) <= _DATA_KEPT_BYTES:
        return {**known, "data": result.data}
    return {**known, "at_hand": True, "again": True}


def ready_from(data: Mapping[str, JSON], job: Job) -> Ready:
    """The ending that was recorded; its links are good where `needs_asking` says no."""
    results = [
        Result(found.get("at"), data=found.get("data"), name=found["name"])
        if found.get("at") is None
        else Result(found["at"], name=found["name"], size_bytes=found.get("size_bytes"), sha256=found.get("sha256"))
        for found in data.get("results", ())
    ]
    return Ready(job, data["state"], results, data.get("counts"), complete=data.get("complete", True))


def needs_asking(data: Mapping[str, JSON] | None) -> bool:
    """Whether a result was recorded by its name alone, and only the monitor has it."""
    return data is not None and any(found.get("again") for found in data.get("results", ()))


def data_was_at_hand(data: Mapping[str, JSON] | None) -> bool:
    """Whether a result came in the body of a poll, which is the only place to have it from."""
    return data is not None and any(found.get("at_hand") for found in data.get("results", ()))


# ---- errors


def error_as_json(error: TrihopError) -> dict[str, JSON]:
    """An ending as it may be written down."""
    said = error.quotable.get("error", getattr(error, "error", None))
    return {"kind": type(error).__name__, "what": error.what, "then": error.then, "said": _plain(said)}


def _plain(said: JSON) -> JSON:
    try:
        text = _json.dumps(said)
    except (TypeError, ValueError):
        return None
    return said if len(text) <= _DATA_KEPT_BYTES else None


def error_from(saved: Saved) -> TrihopError | None:
    """The recorded ending once more; None where it ended well."""
    found = None if saved.outcome is None else saved.outcome.get("error")
    if found is None:
        return None
    kind = getattr(errors, found["kind"], TrihopError)
    record = saved.record()
    error: TrihopError = kind(found["what"], record, found["then"])
    if found.get("said") is not None:
        error.error = found["said"]  # type: ignore[attr-defined]
    if isinstance(error, (JobFailed, OutcomeAmbiguous)):
        job = record.job if record.job is not None else Job()
        error.ready = (
            ready_from(saved.ready, job) if saved.ready is not None else Ready(job, job.state or "", complete=False)
        )
    return error
