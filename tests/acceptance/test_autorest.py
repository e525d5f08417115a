"""Azure's long-running operations against Microsoft's own test server: 92 cases, and the server's report on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from http.cookiejar import DefaultCookiePolicy
from typing import Any

import pytest
import requests

from acceptance.servers.autorest import autorest
from trihop import Budget, JobFailed, OperationError, Provider, RetryPolicy, SurfaceError, TrihopError, operation
from trihop.providers import azure
from trihop.testing import VirtualClock

FOO = {"properties": {"provisioningState": "Succeeded"}, "id": "100", "name": "foo"}
PLAIN_FOO = {"id": "100", "name": "foo"}
SUB_RESOURCE = {"properties": {"provisioningState": "Succeeded"}, "id": "100", "subresource": "sub1"}
SKU = {"name": "sku", "id": "100"}
DONE = {"status": "Succeeded"}
NOTHING = None

FAILED = "JobFailed, Failed"
CANCELLED = "JobCancelled, Canceled"
REJECTED = "SubmitRejected, HTTP 400"
REFUSED = "StatusUnavailable, HTTP 400"
NOT_FOUND = "StatusUnavailable, HTTP 404"
NO_ANSWER = "PollErrorsExhausted, HTTP 200"
NO_SENSE = "SurfaceError"

REQUEST_ID = {"x-ms-client-request-id": "9C4D50EE-2D56-4CD3-8152-34347DC9F2B0"}
AGAIN = RetryPolicy(attempts=3)


def via(final_state_via: azure.FinalStateVia) -> Provider:
    return replace(azure.ASYNC_OPERATION, poll=azure.polling(final_state_via))


@dataclass(frozen=True)
class Case:
    name: str
    method: str
    path: str
    expected: Any
    provider: Provider = azure.ASYNC_OPERATION
    headers: Mapping[str, str] = field(default_factory=dict)
    retry: RetryPolicy | None = None
    json: Any = None
    budget: Budget | None = None
    keeps_cookies: bool = True
    paged: bool = False

    def got(self, base: str) -> Any:
        """The result's JSON, None where there is no result, or the error in a few words."""
        with requests.Session() as session:
            session.trust_env = False
            session.headers.update(self.headers)
            if not self.keeps_cookies:
                session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
            try:
                return self._walked(session, base)
            except TrihopError as error:
                return in_words(error)

    def _walked(self, session: requests.Session, base: str) -> Any:
        with operation(
            self.name[:64], deadline=3600, session=session, provider=self.provider, clock=VirtualClock()
        ) as op:
            job = op.submit(self.method, base + self.path, json=self.json, retry=self.retry)
            ready = op.poll(job, budget=self.budget)
            if self.paged:
                return list(op.download(ready, surface=azure.pages("values")).iter_rows())
            at_hand = all(result.at is None for result in ready.results)
            return ready.data if at_hand else op.download(ready).json()


def in_words(error: TrihopError) -> str:
    words = [type(error).__name__]
    if isinstance(error, SurfaceError):
        return words[0]
    assert isinstance(error, OperationError)
    if isinstance(error, JobFailed):
        words.append(str(error.state))
        if isinstance(error.error, dict):
            words.append(str(error.error["message"]))
    elif error.status_code is not None:
        words.append(f"HTTP {error.status_code}")
    return ", ".join(words)


def lro(name: str, method: str, path: str, expected: Any, **more: Any) -> Case:
    return Case(name, method, "/lro" + path, expected, **more)


PATCHED = "/lro/patch/202/retry/asyncAndLocationHeader"
CASES = [
    lro("PUT inline 200", "PUT", "/put/200/succeeded", FOO),
    lro("PUT inline 201", "PUT", "/put/201/succeeded", FOO),
    lro("PUT inline 200, no state", "PUT", "/put/200/succeeded/nostate", PLAIN_FOO),
    lro("PATCH inline, its header not followed", "PATCH", "/patch/200/succeeded/ignoreheaders", FOO),
    lro(
        "PATCH 201, Azure-AsyncOperation only",
        "PATCH",
        "/patch/201/retry/onlyAsyncHeader",
        {**FOO, "id": "/lro/patch/201/retry/onlyAsyncHeader"},
    ),
    Case("PATCH 202, both headers, final GET of the original", "PATCH", PATCHED, {**FOO, "id": PATCHED}),
    Case(
        "PATCH 202, both headers, final GET of Location",
        "PATCH",
        PATCHED,
        {
            "id": f"{PATCHED}/operationResults/202/finalResults/202",
            "type": "AsyncAndLocationHeader/Operationresults/finalResults",
            "name": "202",
        },
        via("location"),
    ),
    lro("PUT 202, Location, 200", "PUT", "/put/202/retry/200", PLAIN_FOO),
    lro("PUT 201 Creating, asked by itself", "PUT", "/put/201/creating/succeeded/200", FOO),
    lro("PUT 200 Updating, asked by itself", "PUT", "/put/200/updating/succeeded/200", FOO),
    lro("PUT 201 Created, then Failed", "PUT", "/put/201/created/failed/200", FAILED),
    lro("PUT 200 Accepted, then Canceled", "PUT", "/put/200/accepted/canceled/200", CANCELLED),
    lro("PUT async retry succeeded", "PUT", "/putasync/retry/succeeded", FOO),
    lro("PUT async noretry succeeded", "PUT", "/putasync/noretry/succeeded", FOO),
    lro("PUT async retry failed", "PUT", "/putasync/retry/failed", FAILED),
    lro("PUT async noretry canceled", "PUT", "/putasync/noretry/canceled", CANCELLED),
    lro("PUT 202, Location, polls without headers", "PUT", "/put/noheader/202/200", FOO),
    lro("PUT 201 async, Location is junk", "PUT", "/putasync/noheader/201/200", FOO),
    lro("PUT sub-resource, Location", "PUT", "/putsubresource/202/200", SUB_RESOURCE),
    lro("PUT sub-resource async, Location is junk", "PUT", "/putsubresourceasync/202/200", SUB_RESOURCE),
    lro("PUT non-resource, Location", "PUT", "/putnonresource/202/200", SKU),
    lro("PUT non-resource async, Location is junk", "PUT", "/putnonresourceasync/202/200", SKU),
    lro("DELETE provisioning succeeded", "DELETE", "/delete/provisioning/202/accepted/200/succeeded", FOO),
    lro("DELETE provisioning failed", "DELETE", "/delete/provisioning/202/deleting/200/failed", FAILED),
    lro("DELETE provisioning canceled", "DELETE", "/delete/provisioning/202/deleting/200/canceled", CANCELLED),
    lro("DELETE inline 204", "DELETE", "/delete/204/succeeded", NOTHING),
    lro("DELETE 202 retry 200", "DELETE", "/delete/202/retry/200", NOTHING),
    lro("DELETE 202 noretry 204", "DELETE", "/delete/202/noretry/204", NOTHING),
    lro("DELETE 202, Location, polls without headers", "DELETE", "/delete/noheader", NOTHING),
    lro("DELETE async 202, Location is junk", "DELETE", "/deleteasync/noheader/202/204", DONE),
    lro("DELETE async retry succeeded", "DELETE", "/deleteasync/retry/succeeded", DONE),
    lro("DELETE async noretry succeeded", "DELETE", "/deleteasync/noretry/succeeded", DONE),
    lro("DELETE async retry failed", "DELETE", "/deleteasync/retry/failed", FAILED),
    lro("DELETE async retry canceled", "DELETE", "/deleteasync/retry/canceled", CANCELLED),
    lro("POST 202 retry 200, the place moves", "POST", "/post/202/retry/200", FOO, json={"id": 1}),
    lro("POST 202 noretry 204, the place moves", "POST", "/post/202/noretry/204", NOTHING, json={"id": 1}),
    lro("POST payload 200", "POST", "/post/payload/200", {"id": "1", "name": "product"}),
    lro(
        "POST both headers, final via Location",
        "POST",
        "/LROPostDoubleHeadersFinalLocationGet",
        PLAIN_FOO,
        provider=via("location"),
    ),
    lro(
        "POST both headers, final via Azure-AsyncOperation",
        "POST",
        "/LROPostDoubleHeadersFinalAzureHeaderGet",
        {"status": "succeeded", "id": "100"},
        provider=via("azure-async-operation"),
    ),
    lro("POST both headers, no final via", "POST", "/LROPostDoubleHeadersFinalAzureHeaderGetDefault", PLAIN_FOO),
    lro("POST list", "POST", "/list", [PLAIN_FOO]),
    lro("POST async retry succeeded", "POST", "/postasync/retry/succeeded", FOO),
    lro("POST async noretry succeeded", "POST", "/postasync/noretry/succeeded", FOO),
    lro("POST async retry failed", "POST", "/postasync/retry/failed", f"{FAILED}, Internal Server Error"),
    lro("POST async retry canceled", "POST", "/postasync/retry/canceled", CANCELLED),
    # A 500 once on the submit, on the first poll and on the final GET.
    lro("retries: PUT 201 creating", "PUT", "/retryerror/put/201/creating/succeeded/200", FOO, retry=AGAIN),
    lro("retries: PUT async", "PUT", "/retryerror/putasync/retry/succeeded", FOO, retry=AGAIN),
    lro(
        "retries: DELETE provisioning",
        "DELETE",
        "/retryerror/delete/provisioning/202/accepted/200/succeeded",
        FOO,
        retry=AGAIN,
    ),
    lro("retries: DELETE 202 retry 200", "DELETE", "/retryerror/delete/202/retry/200", FOO, retry=AGAIN),
    lro("retries: DELETE async", "DELETE", "/retryerror/deleteasync/retry/succeeded", DONE, retry=AGAIN),
    lro("retries: POST 202 retry 200", "POST", "/retryerror/post/202/retry/200", FOO, retry=AGAIN),
    lro("retries: POST async", "POST", "/retryerror/postasync/retry/succeeded", SKU, retry=AGAIN),
    lro(
        "retries: no submit again unless it is permitted",
        "POST",
        "/retryerror/post/202/retry/200",
        "SubmitUncertain, HTTP 500",
    ),
    lro("errors: PUT 400", "PUT", "/nonretryerror/put/400", REJECTED),
    lro("errors: PUT 201 creating, then 400", "PUT", "/nonretryerror/put/201/creating/400", REFUSED),
    lro(
        "errors: PUT 201 creating, then 400 with bad JSON",
        "PUT",
        "/nonretryerror/put/201/creating/400/invalidjson",
        REFUSED,
    ),
    lro("errors: PUT async, poll 400", "PUT", "/nonretryerror/putasync/retry/400", REFUSED),
    lro("errors: DELETE 400", "DELETE", "/nonretryerror/delete/400", REJECTED),
    lro("errors: DELETE 202, poll 400", "DELETE", "/nonretryerror/delete/202/retry/400", REFUSED),
    lro("errors: DELETE async, poll 400", "DELETE", "/nonretryerror/deleteasync/retry/400", REFUSED),
    lro("errors: POST 400", "POST", "/nonretryerror/post/400", REJECTED),
    lro("errors: POST 202, poll 400", "POST", "/nonretryerror/post/202/retry/400", REFUSED),
    lro("errors: POST async, poll 400", "POST", "/nonretryerror/postasync/retry/400", REFUSED),
    lro("errors: PUT 201 without a body", "PUT", "/error/put/201/noprovisioningstatepayload", NO_ANSWER),
    lro("errors: PUT async, no status", "PUT", "/error/putasync/retry/nostatus", NO_ANSWER),
    lro("errors: PUT async, no body", "PUT", "/error/putasync/retry/nostatuspayload", NO_ANSWER),
    lro("errors: PUT 200 with bad JSON", "PUT", "/error/put/200/invalidjson", NO_SENSE),
    lro("errors: PUT async, relative and unreadable headers", "PUT", "/error/putasync/retry/invalidheader", NOT_FOUND),
    lro("errors: PUT async, poll with bad JSON", "PUT", "/error/putasync/retry/invalidjsonpolling", NO_ANSWER),
    lro("errors: DELETE 204 without Location", "DELETE", "/error/delete/204/nolocation", NOTHING),
    lro(
        "errors: DELETE 202, relative and unreadable headers",
        "DELETE",
        "/error/delete/202/retry/invalidheader",
        NOT_FOUND,
    ),
    lro("errors: DELETE async, no status", "DELETE", "/error/deleteasync/retry/nostatus", NO_ANSWER),
    lro(
        "errors: DELETE async, relative and unreadable headers",
        "DELETE",
        "/error/deleteasync/retry/invalidheader",
        NOT_FOUND,
    ),
    lro("errors: DELETE async, poll with bad JSON", "DELETE", "/error/deleteasync/retry/invalidjsonpolling", NO_ANSWER),
    lro("errors: POST 202 without Location", "POST", "/error/post/202/nolocation", NO_SENSE),
    lro("errors: POST 202, relative and unreadable headers", "POST", "/error/post/202/retry/invalidheader", NOT_FOUND),
    lro("errors: POST async, no body", "POST", "/error/postasync/retry/nopayload", NO_ANSWER),
    lro(
        "errors: POST async, relative and unreadable headers", "POST", "/error/postasync/retry/invalidheader", NOT_FOUND
    ),
    lro("errors: POST async, poll with bad JSON", "POST", "/error/postasync/retry/invalidjsonpolling", NO_ANSWER),
    lro("header on all hops: PUT async", "PUT", "/customheader/putasync/retry/succeeded", FOO, headers=REQUEST_ID),
    lro("header on all hops: POST async", "POST", "/customheader/postasync/retry/succeeded", DONE, headers=REQUEST_ID),
    lro("header on all hops: PUT", "PUT", "/customheader/put/201/creating/succeeded/200", FOO, headers=REQUEST_ID),
    lro(
        "header on all hops: POST, the place moves",
        "POST",
        "/customheader/post/202/retry/200",
        NOTHING,
        headers=REQUEST_ID,
    ),
    lro("header on all hops: missing", "POST", "/customheader/post/202/retry/200", REJECTED),
    Case("relative Location", "POST", "/lroParameterizedEndpoints/", "success"),
    Case("relative Location, constant", "POST", "/lroConstantParameterizedEndpoints/iAmConstant", "success"),
    Case(
        "a result of ten pages",
        "POST",
        "/paging/multiple/lro",
        [{"properties": {"id": n, "name": "Product" if n == 1 else "product"}} for n in range(1, 11)],
        paged=True,
    ),
    Case(
        "provisioningState at the top, raw",
        "PUT",
        "/customization/lro/raw",
        {"provisioningState": "Succeeded", "received": "raw"},
    ),
    Case(
        "provisioningState at the top, model",
        "PUT",
        "/customization/lro/model",
        {"provisioningState": "Succeeded", "received": "model"},
    ),
    Case("multiapi PUT, inline", "PUT", "/multiapi/lro", {"id": "100"}),
    Case("multiapi POST, inline", "POST", "/multiapi/lroAndPaging", {"values": [{"id": "100"}]}),
    lro(
        "a session that drops cookies never sees the end",
        "PUT",
        "/putasync/noretry/succeeded",
        "PollBudgetExhausted, HTTP 202",
        keeps_cookies=False,
        budget=Budget(polls=4),
    ),
]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with autorest(tmp_path_factory.mktemp("autorest")) as url:
        yield url


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_operation_comes_to_what_the_server_means(case, base, table):
    """The result's body, or the typed error, is the expected one."""
    table.row(case.provider.name, case.name, expected=case.expected, got=case.got(base))


def test_the_server_reports_each_of_its_operations_as_covered(base, table):
    """The server counts an operation when a client has walked it as it should; none is left."""
    report = {}
    for category in ("azure", "optional"):
        report.update(requests.get(f"{base}/report/{category}", timeout=10).json())
    theirs = {name: count for name, count in report.items() if name.startswith(("LRO", "CustomHeaderP"))}

    table.row(
        azure.ASYNC_OPERATION.name,
        f"the server's own report on its {len(theirs)} operations",
        expected="uncovered: none",
        got="uncovered: " + (", ".join(name for name, count in theirs.items() if count == 0) or "none"),
    )
