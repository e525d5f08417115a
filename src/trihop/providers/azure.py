"""Azure's long-running operations: data-plane APIs, and Azure Resource Manager (ARM).

- Where to ask: `Operation-Location` (data plane) or `Azure-AsyncOperation` (ARM) lead to a status monitor, whose
  `status` is the state; else `Location`, where the HTTP status is the state (202 goes on, 200 and 204 are over) unless
  a `provisioningState` in the body says otherwise; else the resource itself, asked by GET until its
  `provisioningState` is final. A poll may move the monitor or the `Location`.
- A 200 or 201 to the submit is over at once where its `provisioningState` is final or, without any of these headers,
  missing: then a header is not followed. A 202 is always asked for.
- Final words are exactly Succeeded, Failed and Canceled, in any case; services add running words of their own. A
  resource without a `provisioningState` is provisioned; a status monitor without a `status` is no answer.
- The result: what `final-state-via` in the API's description says, else `resourceLocation` of the monitor, else for
  PUT and PATCH the submit's URL, else for POST the `Location`, else `result` of the monitor, else its whole body.
- `Retry-After` is required of a data plane while it runs; where it is missing the 30 s of azure-core are our cap. A
  monitor is kept for 24 hours or more.
- `Operation-Id` is an idempotency key by another name: the same id and request is a retry, another request 400. The
  guidelines of 2024 require it; for an older service use `replace(azure.OPERATION_LOCATION, idempotency=None)`, so that
  a submit that was lost is not sent again.
- Data planes cancel by `POST {monitor}:cancel`; ARM has no way that all services share.

Credentials go to the origin that was submitted to; name a regional host of the monitor in `origins=`.

Read November 2026: github.com/microsoft/api-guidelines (azure/Guidelines.md, long-running operations);
learn.microsoft.com/azure/azure-resource-manager/management/async-operations;
learn.microsoft.com/azure/architecture/patterns/async-request-reply; the polling algorithms of azure-core.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from trihop._pacing import Pacing
from trihop._provider import Provider
from trihop._surface import DownloadSurface, Field, PollSurface, ReadState, at_hand, header
from trihop._template import join
from trihop._values import JSON, Call, Job, Reply, Result
from trihop._verdicts import (
    Accepted,
    Content,
    DownloadVerdict,
    Ending,
    Pending,
    PollVerdict,
    SubmitVerdict,
    Succeeded,
    Transient,
)

FinalStateVia = Literal["azure-async-operation", "operation-location", "location", "original-uri"]

_MONITOR = header("Operation-Location", "Azure-AsyncOperation")
_LOCATION = header("Location")


def _words_at(state: Field) -> ReadState:
    return ReadState(
        state,
        pending={
            "accepted",
            "created",
            "creating",
            "deleting",
            "in progress",
            "not started",
            "pending",
            "provisioning",
            "queued",
            "running",
            "updating",
        },
        succeeded={"succeeded"},
        failed={"failed"},
        cancelled={"canceled", "cancelled"},
        error="error",
        progress="percentComplete",
    )


_read_monitor = _words_at("status")
_read_resource = _words_at("properties.provisioningState || provisioningState")


def submit(reply: Reply) -> SubmitVerdict:
    """Over at once, or where to ask: `memo.via` tells what the answers there are (monitor, location, resource)."""
    monitor, location = _MONITOR(reply), _LOCATION(reply)
    if reply.status_code == 204:
        return Succeeded("Succeeded")
    if reply.status_code in (200, 201):
        asked_elsewhere = monitor is not None or location is not None
        body = at_hand(reply) if reply.content else None
        verdict = _provisioned(reply, Job(), body)
        if isinstance(verdict, Ending):
            return verdict
        if not asked_elsewhere:
            over = isinstance(verdict, Transient) and (body is not None or reply.status_code == 200)
            return Succeeded("Succeeded", results=_some(body)) if over else _accepted(reply, "resource", reply.url)
    if monitor is not None:
        return _accepted(reply, "monitor", monitor)
    return _accepted(reply, "location", location)


def polling(final_state_via: FinalStateVia | None = None) -> PollSurface:
    """A poll surface.

    Args:
        final_state_via: What the API's description says under
            `x-ms-long-running-operation-options`; None: it says nothing.
    """

    def poll(reply: Reply, job: Job) -> PollVerdict:
        if reply.status_code in (302, 303):
            return Succeeded("Succeeded", results=tuple(Result(place) for place in [_LOCATION(reply)] if place))
        match job.memo.get("via"):
            case "location":
                return _at_location(reply, job)
            case "resource":
                return _at_resource(reply, job)
            case _:
                return _at_monitor(reply, job, final_state_via)

    return poll


def pages(items: str = "value") -> DownloadSurface:
    """A download surface for a list in pages, each item a JSON line: `op.download(ready, surface=azure.pages())`.

    Args:
        items: The field with a page's items; the next page is at its `nextLink`.
    """

    def page(reply: Reply, result: Result) -> DownloadVerdict:
        body = reply.json()
        return Content(items=body[items], next=body.get("nextLink") or None)

    return page


def _accepted(reply: Reply, via: str, status_url: str | None) -> Accepted:
    location = _LOCATION(reply)
    memo = {"via": via} if location is None else {"via": via, "location": join(reply.url, location)}
    return Accepted(reply.headers.get("Operation-Id"), status_url, memo=memo)


def _at_monitor(reply: Reply, job: Job, via: FinalStateVia | None) -> PollVerdict:
    if reply.status_code == 202 and not reply.content:
        return Pending("Accepted", status_url=_MONITOR(reply))
    verdict = _read_monitor(reply, job)
    location = _LOCATION(reply)
    if isinstance(verdict, Pending):
        memo = None if location is None else {"location": join(reply.url, location)}
        return replace(verdict, status_url=_MONITOR(reply), memo=memo)
    if isinstance(verdict, Succeeded):
        return replace(verdict, results=(_final(reply.json(), job, via),))
    return verdict


def _at_location(reply: Reply, job: Job) -> PollVerdict:
    if reply.status_code == 202:
        return Pending("Accepted", status_url=_LOCATION(reply))
    body = at_hand(reply) if reply.content else None
    verdict = _provisioned(reply, job, body)
    if isinstance(verdict, Pending):
        return replace(verdict, status_url=_LOCATION(reply))
    return Succeeded("Succeeded", results=_some(body)) if isinstance(verdict, Transient) else verdict


def _at_resource(reply: Reply, job: Job) -> PollVerdict:
    body = Result(data=reply.json())
    verdict = _provisioned(reply, job, body)
    if isinstance(verdict, Transient) and isinstance(body.data, dict) and "id" in body.data:
        return Succeeded("Succeeded", results=(body,))
    return verdict


def _provisioned(reply: Reply, job: Job, body: Result | None) -> PollVerdict:
    """What the `provisioningState` says; `Transient` where there is none."""
    if body is None or not isinstance(body.data, dict):
        return Transient("no_state")
    verdict = _read_resource(reply, job)
    return replace(verdict, results=(body,)) if isinstance(verdict, Succeeded) else verdict


def _final(monitor: JSON, job: Job, via: FinalStateVia | None) -> Result:
    """Where the result is, by the rules of azure-core and in their order."""
    method, location = job.submit_method, job.memo.get("location")
    if via == "location" and location is not None:
        return Result(location)
    if via in ("azure-async-operation", "operation-location") and method == "POST":
        return Result(data=monitor.get("result", monitor))
    if place := monitor.get("resourceLocation"):
        return Result(place)
    if method in ("PUT", "PATCH") and job.submit_url is not None:
        return Result(job.submit_url)
    if method == "POST" and location is not None:
        return Result(location)
    return Result(data=monitor.get("result", monitor))


def _some(body: Result | None) -> tuple[Result, ...]:
    return () if body is None else (body,)


def _cancel(job: Job) -> Call:
    if job.status_url is None:
        raise LookupError("the job has no status_url")
    path, mark, query = job.status_url.partition("?")
    return Call("POST", f"{path}:cancel{mark}{query}")


_PATIENCE = Pacing(first=2.0, factor=1.5, cap=30.0)

ASYNC_OPERATION = Provider("azure.async_operation", submit=submit, poll=polling(), pacing=_PATIENCE)
"""A PUT, PATCH, POST or DELETE of Azure Resource Manager.

`replace(azure.ASYNC_OPERATION, poll=azure.polling("location"))` where the API's description has a `final-state-via`.

States: Accepted, Creating, Updating, the service's own words; Succeeded; Failed; Canceled; or 202, then 200 or 204
Result: the resource, or what the monitor or the `Location` has
Paging: `nextLink`, with `surface=azure.pages()`
Deadline: 1 hour
Checked: autorest.testserver 3.3.51, real HTTP
Source: https://learn.microsoft.com/azure/azure-resource-manager/management/async-operations
"""

OPERATION_LOCATION = Provider(
    "azure.operation_location",
    submit=submit,
    poll=polling(),
    cancel=_cancel,
    idempotency="Operation-Id",
    pacing=_PATIENCE,
)
"""An operation of a data-plane API that follows Azure's REST guidelines.

States: NotStarted, Running, the service's own words; Succeeded; Failed; Canceled
Result: `result` of the status monitor, or the resource
Paging: `nextLink`, with `surface=azure.pages()`
Deadline: 1 hour
Checked: exchanges as documented
Source: https://github.com/microsoft/api-guidelines/blob/vNext/azure/Guidelines.md
"""
