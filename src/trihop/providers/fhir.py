"""FHIR Bulk Data Access: `$export`, a job that is submitted by a GET and leaves many files.

- The kick-off is a GET (or POST) with the headers `fhir.KICK_OFF`; the answer is 202 with `Content-Location`. A 429
  there means that another export is under way.
- Ask as `Retry-After` says, in seconds or as a date, else ever more slowly: who asks too often is answered 429, and may
  lose the job. 202 goes on, with an `X-Progress` in words or percent. 200 is over, with a manifest.
- A 4xx or 5xx with an OperationOutcome means that the export failed, unless its issue has a transient code: then only
  this poll did.
- The manifest lists files as `output`, `deleted` and `error` (`outcome` from version 4), each with its `type`: they are
  named `output-Patient`, `output-Patient-2`, `error-OperationOutcome`. Entries under `error` do not make the export a
  failure: look at them. With `_allowPartialManifests=true` the manifest itself has pages, which are read as polls.
- `requiresAccessToken` decides whether files are fetched with the session's credentials, wherever they lie (true), or
  without any (false). `Expires` tells how long they are there.
- `DELETE` of the status cancels a running export, and gives up the files of one that is over.
- No idempotency key is specified. Exports take minutes to days.

Read November 2026: hl7.org/fhir/uv/bulkdata (3.0.0 and the ballot of 4.0.0), export; github.com/HL7/bulk-data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from trihop._pacing import Pacing
from trihop._provider import Provider
from trihop._surface import ReadJob, accepts, header
from trihop._template import join
from trihop._values import JSON, Call, Credentials, Job, Reply, Result
from trihop._verdicts import Failed, Pending, PollVerdict, Succeeded, Transient
from trihop.providers.prefer import respond_async

KICK_OFF: Mapping[str, str] = {"Accept": "application/fhir+json", **respond_async()}
"""The headers of the request that starts an export."""

_BESIDE_OUTPUT = ("deleted", "error", "outcome")
_PERCENT = re.compile(r"(\d{1,3}(?:\.\d+)?)\s*%")

# The children of `transient` in FHIR's value set of issue types.
_TRANSIENT = frozenset({"transient", "lock-error", "no-store", "exception", "timeout", "incomplete", "throttled"})

_content_location = header("Content-Location")


@accepts(400, 500)
def poll(reply: Reply, job: Job) -> PollVerdict:
    """Under way, a manifest, a page of it, or an OperationOutcome."""
    if reply.status_code >= 400:
        return _outcome(reply)
    if reply.status_code == 202:
        words = reply.headers.get("X-Progress")
        percent = _PERCENT.search(words or "")
        return Pending("in-progress", message=words, progress=float(percent[1]) if percent else None)
    manifest = reply.json()
    files = [*job.memo.get("files", ()), *_files_of(reply, manifest)]
    following = [link["url"] for link in manifest.get("link", ()) if link["relation"] == "next"]
    if following:
        return Pending("in-progress", message="more of the manifest", status_url=following[0], memo={"files": files})
    return Succeeded("complete", results=[_result(**file) for file in files])


def _files_of(reply: Reply, manifest: JSON) -> Iterator[dict[str, JSON]]:
    """What a later poll needs to know of each file, should this be a page of the manifest."""
    credentials = {True: "always", False: "never"}.get(manifest.get("requiresAccessToken"), "origin")
    listed = {"output": manifest["output"], **{kind: manifest.get(kind, ()) for kind in _BESIDE_OUTPUT}}
    for kind, files in listed.items():
        for file in files:
            name = "-".join(filter(None, (kind, file.get("type"))))
            yield {"url": join(reply.url, file["url"]), "name": name, "credentials": credentials}


def _result(url: str, name: str, credentials: Credentials) -> Result:
    headers = {"Accept": "application/fhir+ndjson"}
    return Result(Call("GET", url, headers=headers, credentials=credentials), name=name)


def _outcome(reply: Reply) -> PollVerdict:
    outcome = reply.json()
    codes = {issue["code"] for issue in outcome["issue"]}
    if codes & _TRANSIENT:
        return Transient(str(reply.status_code))
    return Failed("error", error=outcome)


def _cancel(job: Job) -> Call:
    return Call("DELETE", job.memo.get("export") or "{status_url}")


EXPORT = Provider(
    "fhir.export",
    submit=ReadJob(status_url=_content_location, memo={"export": _content_location}),
    poll=poll,
    status=Call("GET", "{status_url}", headers={"Accept": "application/json"}),
    cancel=_cancel,
    pacing=Pacing(first=5.0, factor=2.0, cap=120.0),
)
"""An export, kicked off at `…/$export`, `…/Patient/$export` or `…/Group/{id}/$export`.

States: 202; 200 with a manifest; 4xx or 5xx with an OperationOutcome that is not transient
Result: NDJSON files, as many as the manifest lists; pass `into=`
Paging: of the manifest, by `link`
Deadline: 6 hours; an export of everything takes longer
Checked: exchanges as documented
Source: https://hl7.org/fhir/uv/bulkdata/export.html
"""
