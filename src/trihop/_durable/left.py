"""What an earlier visit left of an operation, as far as it can be used without asking."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from trihop._errors import JobPartiallyFailed, TrihopError
from trihop._results.download import Download
from trihop._saved import (
    READY,
    SUBMITTED,
    Saved,
    data_was_at_hand,
    error_from,
    job_from,
    needs_asking,
    ready_from,
)
from trihop._values import JSON, Job, Ready, Result


class Left:
    """The record as a visit found it.

    Args:
        saved: The record.
        fresh: Whether there was none before.
    """

    def __init__(self, saved: Saved, *, fresh: bool) -> None:
        self.saved = saved
        self._ready_told = fresh
        self.trace_url: str | None = None
        """Where the trace can be looked at, for errors."""

    def job(self) -> Job | None:
        """The job that is known of an earlier visit."""
        saved = self.saved
        if saved.phase not in (SUBMITTED, READY):
            return None
        job = job_from(saved.job)
        at_once = saved.ready is not None and saved.polls == 0 and not needs_asking(saved.ready)
        if job is not None and saved.ready is not None and at_once:
            job = replace(job, ready=ready_from(saved.ready, job))
        return job

    def error(self, hop: str) -> TrihopError | None:
        """The recorded ending, where it was this hop that met it."""
        error = error_from(self.saved)
        if error is None or self.saved.outcome is None:
            return None
        error.record = replace(error.record, trace_url=self.trace_url)
        met_in = "submit" if self.saved.outcome["hop"] == "submit" else "poll"
        if isinstance(error, JobPartiallyFailed):
            met_in = "poll"
        return error if met_in == hop else None

    def ready(self, job: Job) -> Ready | None:
        """The recorded result, once; None where the monitor has to be asked."""
        found = self.saved
        if self._ready_told or found.phase != READY or found.ready is None:
            return None
        self._ready_told = True
        if data_was_at_hand(found.ready) or (not found.ended and needs_asking(found.ready)):
            return None
        return ready_from(found.ready, job)

    def is_stale(self, ready: Ready) -> bool:
        """Whether a result is known by its name alone, and its link has to be asked for."""
        found = self.saved.ready
        if found is None or not needs_asking(found):
            return False
        links = [one for one in found["results"] if one.get("again") and not one.get("at_hand")]
        stale = [Result(one["at"], name=one["name"]).at for one in links]
        return any(result.at in stale for result in ready.results)

    def intact(self, path: Path) -> Download | None:
        """The file that an earlier visit fetched, if it is there and unchanged."""
        found = next((one for one in self.saved.files if one["path"] == str(path.absolute())), None)
        return None if found is None else _download_of(found)

    def intact_folder(self, folder: Path, names: list[str]) -> dict[str, Download] | None:
        """The files that an earlier visit fetched into a folder, if all are there and unchanged."""
        by_name = {one["name"]: one for one in self.saved.files if one["into"] == str(folder.absolute())}
        found = {name: _download_of(by_name[name]) for name in names if name in by_name}
        if len(found) < len(names) or not found or None in found.values():
            return None
        return {name: download for name, download in found.items() if download is not None}


def file_as_json(download: Download, into: str | None) -> dict[str, JSON]:
    path = download.path
    return {
        "name": download.name,
        "path": None if path is None else str(path.absolute()),
        "size_bytes": download.size_bytes,
        "sha256": download.sha256,
        "content_type": download.content_type,
        "content_encoding": download.content_encoding,
        "parts": download.parts,
        "mtime_ns": None if path is None else path.stat().st_mtime_ns,
        "into": into,
    }


def _download_of(found: Mapping[str, JSON]) -> Download | None:
    if found["path"] is None:
        return None
    path = Path(found["path"])
    try:
        there = path.stat()
    except OSError:
        return None
    if there.st_size != found["size_bytes"] or there.st_mtime_ns != found["mtime_ns"]:
        return None
    return Download(
        found["name"],
        path,
        found["size_bytes"],
        found["sha256"],
        found["content_type"],
        found["parts"],
        0,
        found["content_encoding"],
    )
