"""The replies of a simple asynchronous API, as `trihop.providers.generic.ACCEPTED` reads it."""

from __future__ import annotations

from trihop._values import JSON, Reply


def accepted(location: str = "{url}jobs/1", *, hint_s: float | None = None) -> Reply:
    """202 with a `Location` for the status monitor.

    Args:
        location: Where; `{url}` is the server's own URL.
        hint_s: Seconds for `Retry-After`; None: no such header.
    """
    return Reply(202, headers={"Location": location, **_hint(hint_s)})


def running(state: str = "running", *, hint_s: float | None = None, **fields: JSON) -> Reply:
    """200 for a job that goes on, `{"status": state}` and further fields."""
    return Reply(200, {"status": state, **fields}, headers=_hint(hint_s))


def done(state: str = "succeeded", **fields: JSON) -> Reply:
    """200 for a job that succeeded; `result_url="{url}files/1"` or `result=…` says with what."""
    return Reply(200, {"status": state, **fields})


def failed(error: JSON = "it did not work", *, state: str = "failed") -> Reply:
    """200 for a job that failed, and why."""
    return Reply(200, {"status": state, "error": error})


def _hint(hint_s: float | None) -> dict[str, str]:
    return {} if hint_s is None else {"Retry-After": f"{hint_s:g}"}
