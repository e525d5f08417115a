"""Loops as people write them, each exchange with the part it plays; `other` is for what is none of the three.

A host is a word in braces, `{api}`, and gets a server of its own. A POST carries its part as
its body, so that a re-send is the same request and the next step is another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Step(NamedTuple):
    """One exchange of a loop."""

    truth: str
    method: str
    url: str
    status: int
    body: Any
    headers: Mapping[str, str]


def step(truth: str, request: str, answer: object = None, *, status: int = 200, **headers: str) -> Step:
    """One exchange; header names are written with underscores."""
    method, _, url = request.partition(" ")
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return Step(truth, method, url if "{" in url else "{api}" + url, status, answer, fields)


FIELD: dict[str, list[Step]] = {
    "Salesforce, signed in first": [
        step("other", "POST {login}/oauth2/token", {"access_token": "T0ken"}),
        step("submit", "POST /jobs/query", {"id": "750R", "state": "UploadComplete"}),
        step("poll", "GET /jobs/query/750R", {"id": "750R", "state": "InProgress"}),
        step("poll", "GET /jobs/query/750R", {"id": "750R", "state": "InProgress"}),
        step("poll", "GET /jobs/query/750R", {"id": "750R", "state": "JobComplete"}),
        step("download", "GET /jobs/query/750R/results", "Id\n1\n", Sforce_Locator="MTAw"),
        step("download", "GET /jobs/query/750R/results?locator=MTAw", "Id\n2\n"),
    ],
    "OpenAI batch": [
        step("other", "POST /v1/files", {"id": "file-in1"}),
        step("submit", "POST /v1/batches", {"id": "batch_1", "input_file_id": "file-in1"}),
        step("poll", "GET /v1/batches/batch_1", {"status": "validating", "id": "batch_1", "output_file_id": None}),
        step("poll", "GET /v1/batches/batch_1", {"status": "in_progress", "id": "batch_1", "output_file_id": None}),
        step(
            "poll", "GET /v1/batches/batch_1", {"status": "completed", "id": "batch_1", "output_file_id": "file-out9"}
        ),
        step("download", "GET /v1/files/file-out9/content", "{}\n{}\n"),
    ],
    "Azure operation": [
        step(
            "submit",
            "PUT /sub/rg/vm?api-version=1",
            {"id": "/sub/rg/vm"},
            status=201,
            Azure_AsyncOperation="{api}/ops/9?api-version=1",
        ),
        step("poll", "GET /ops/9?api-version=1", {"status": "InProgress"}),
        step("poll", "GET /ops/9?api-version=1", {"status": "Succeeded"}),
        step("download", "GET /sub/rg/vm?api-version=1", {"id": "/sub/rg/vm"}),
    ],
    "Location that moves": [
        step("submit", "POST /exp", status=202, Location="/ops/1"),
        step("poll", "GET /ops/1", status=202, Location="/ops/2"),
        step("poll", "GET /ops/2", status=202, Location="/ops/3"),
        step("poll", "GET /ops/3", status=303, Location="/res/9"),
        step("download", "GET /res/9", "the result"),
    ],
    "copy with a monitor elsewhere": [
        step("submit", "POST /items/5/copy", status=202, Location="{monitor}/op/7?tok=abc"),
        step("poll", "GET {monitor}/op/7?tok=abc", {"status": "inProgress", "resourceId": None}),
        step("poll", "GET {monitor}/op/7?tok=abc", {"status": "inProgress", "resourceId": None}),
        step("poll", "GET {monitor}/op/7?tok=abc", {"status": "completed", "resourceId": "NEW77"}),
        step("download", "GET /items/NEW77", "the item"),
    ],
    "statistics behind a 202": [
        step("poll", "GET /repos/a/b/stats/contributors", status=202),
        step("poll", "GET /repos/a/b/stats/contributors", status=202),
        step("poll", "GET /repos/a/b/stats/contributors", [{"total": 3}]),
    ],
    "report with a token in the query": [
        step("submit", "GET /FlexStatement.SendRequest?t=SECRET&q=55", {"ReferenceCode": "R9001"}),
        *[step("poll", "GET /FlexStatement.GetStatement?t=SECRET&q=R9001", {"code": "1019"})] * 3,
    ],
    "cache buster on polls": [
        step("submit", "POST /rep", {"reportId": "rp55"}),
        step("poll", "GET /rep/rp55?_=1", {"state": "run", "url": None}),
        step("poll", "GET /rep/rp55?_=2", {"state": "run", "url": None}),
        step("poll", "GET /rep/rp55?_=3", {"state": "run", "url": "{storage}/f?sig=q"}),
        step("download", "GET {storage}/f?sig=q", "the file"),
    ],
    "pages by cursor, no job": [
        step("other", "POST /login", {"session": "S123"}),
        *[step("other", f"GET /items?cursor=c{page}", {"next": f"c{page + 1}"}) for page in range(4)],
    ],
    "upload in parts, then a job": [
        step("other", "POST /uploads", {"uploadId": "up-1", "urls": ["{storage}/p1", "{storage}/p2"]}),
        step("other", "PUT {storage}/p1"),
        step("other", "PUT {storage}/p2"),
        step("submit", "POST /transcode", {"job": "tj42"}, status=202),
        step("poll", "GET /transcode/tj42", {"st": "run", "out": None}),
        step("poll", "GET /transcode/tj42", {"st": "done", "out": "{storage}/out.mp4?sig=1"}),
        step("download", "GET {storage}/out.mp4?sig=1", "the film"),
    ],
    "two jobs in turn": [
        step("submit", "POST /jobs", status=202, Location="/jobs/11"),
        step("submit", "POST /jobs", status=202, Location="/jobs/12"),
        step("poll", "GET /jobs/11", {"state": "run", "result": 0}),
        step("poll", "GET /jobs/12", {"state": "run", "result": 0}),
        step("poll", "GET /jobs/11", {"state": "done", "result": 1}),
        step("poll", "GET /jobs/12", {"state": "done", "result": 1}),
        step("download", "GET /jobs/11/result", "eleven"),
        step("download", "GET /jobs/12/result", "twelve"),
    ],
    "HEAD until it is there": [
        step("submit", "POST /render", {"output": "{cdn}/o/1.png"}, status=202),
        step("poll", "HEAD {cdn}/o/1.png", status=404),
        step("poll", "HEAD {cdn}/o/1.png", status=404),
        step("poll", "HEAD {cdn}/o/1.png"),
        step("download", "GET {cdn}/o/1.png", "a picture"),
    ],
    "who am I, at each step": [
        step("other", "GET /me", {"id": "u1"}),
        step("submit", "POST /jobs", {"id": "j555"}, status=202),
        step("other", "GET /me", {"id": "u1"}),
        step("poll", "GET /jobs/j555", {"s": "run"}),
        step("other", "GET /me", {"id": "u1"}),
        step("poll", "GET /jobs/j555", {"s": "ok", "file": "ff77"}),
        step("download", "GET /files/ff77", "the file"),
    ],
    "everything tried again": [
        step("submit", "POST /jobs", status=503),
        step("submit", "POST /jobs", {"id": "j556"}, status=202),
        step("poll", "GET /jobs/j556", {"s": "run"}),
        step("poll", "GET /jobs/j556", status=502),
        step("poll", "GET /jobs/j556", {"s": "ok", "file": "ff78"}),
        step("download", "GET /files/ff78", status=503),
        step("download", "GET /files/ff78", status=503),
        step("download", "GET /files/ff78", "the file"),
    ],
    "done at the first poll": [
        step("submit", "POST /jobs", status=202, Location="/jobs/91"),
        step("poll", "GET /jobs/91", {"s": "ok", "u": "{storage}/k?sig=2"}),
        step("download", "GET {storage}/k?sig=2", "the file"),
    ],
    "Athena, all by POST": [
        step("submit", "POST {athena}/", {"QueryExecutionId": "q-1"}),
        step("poll", "POST {athena}/", {"State": "RUNNING"}),
        step("poll", "POST {athena}/", {"State": "RUNNING"}),
        step("download", "POST {athena}/", {"Rows": []}),
    ],
    "GraphQL": [
        step("submit", "POST /graphql", {"data": {"bulk": {"id": "gid1"}}}),
        step("poll", "POST /graphql", {"data": {"status": "RUNNING"}}),
        step("poll", "POST /graphql", {"data": {"status": "DONE", "url": "{storage}/bulk?x=1"}}),
        step("download", "GET {storage}/bulk?x=1", "the bulk"),
    ],
    "job, then tidying up": [
        step("submit", "POST /jobs", status=202, Location="/jobs/92"),
        step("poll", "GET /jobs/92", {"s": "run"}),
        step("poll", "GET /jobs/92", {"s": "ok", "href": "/jobs/92/out"}),
        step("download", "GET /jobs/92/out", "the output"),
        step("other", "DELETE /jobs/92"),
        step("other", "POST {hooks}/n"),
        step("other", "GET /quota"),
    ],
}

# Labelled before they were run.
OWN: dict[str, list[Step]] = {
    "FHIR bulk export": [
        step("submit", "GET /Patient/$export", status=202, Content_Location="/bulkstatus/ab12cd"),
        step("poll", "GET /bulkstatus/ab12cd", status=202, X_Progress="10 %"),
        step("poll", "GET /bulkstatus/ab12cd", status=202, X_Progress="90 %"),
        step(
            "poll",
            "GET /bulkstatus/ab12cd",
            {"output": [{"url": "{storage}/p1.ndjson"}, {"url": "{storage}/p2.ndjson"}]},
        ),
        step("download", "GET {storage}/p1.ndjson", "{}\n"),
        step("download", "GET {storage}/p2.ndjson", "{}\n"),
    ],
    "a log asked for beside the state": [
        step("submit", "POST /jobs", {"id": "job-77aa"}, status=202),
        step("other", "GET /jobs/job-77aa/log", "begun\n"),
        step("poll", "GET /jobs/job-77aa", {"state": "running"}),
        step("other", "GET /jobs/job-77aa/log", "begun\nhalf\n"),
        step("poll", "GET /jobs/job-77aa", {"state": "running"}),
        step("other", "GET /jobs/job-77aa/log", "begun\nhalf\ndone\n"),
        step("poll", "GET /jobs/job-77aa", {"state": "done"}),
        step("download", "GET /jobs/job-77aa/artifact", "the artifact"),
    ],
    "limits of the account, at each step": [
        step("other", "POST /login", {"access_token": "t0k-5050", "user_id": "u-4242"}),
        step("other", "GET /users/u-4242/limits", {"left": 9}),
        step("submit", "POST /exports", {"exportId": "ex-901"}),
        step("other", "GET /users/u-4242/limits", {"left": 8}),
        step("poll", "GET /exports/ex-901", {"phase": "EXPORTING"}),
        step("other", "GET /users/u-4242/limits", {"left": 7}),
        step("poll", "GET /exports/ex-901", {"phase": "READY", "link": "{storage}/ex-901.csv?sig=z"}),
        step("download", "GET {storage}/ex-901.csv?sig=z", "a,b\n"),
    ],
    "token refreshed between polls": [
        step("other", "POST {login}/token", {"access_token": "one-11"}),
        step("submit", "POST /jobs", status=202, Location="/jobs/j-88"),
        step("poll", "GET /jobs/j-88", {"status": "running"}),
        step("poll", "GET /jobs/j-88", status=401),
        step("other", "POST {login}/token", {"access_token": "two-22"}),
        step("poll", "GET /jobs/j-88", {"status": "done", "href": "/results/r-88"}),
        step("download", "GET /results/r-88", "the result"),
    ],
    "a link that runs out": [
        step("submit", "POST /reports", {"reportId": "rep-3131"}, status=202),
        step("poll", "GET /reports/rep-3131", {"status": "IN_PROGRESS"}),
        step("poll", "GET /reports/rep-3131", {"status": "DONE", "url": "{storage}/r.gz?sig=old"}),
        step("download", "GET {storage}/r.gz?sig=old", status=403),
        step("poll", "GET /reports/rep-3131", {"status": "DONE", "url": "{storage}/r.gz?sig=new"}),
        step("download", "GET {storage}/r.gz?sig=new", "the report"),
    ],
    "jobs that somebody else began": [
        step("other", "GET /jobs?state=running", [{"id": "job-3001"}, {"id": "job-3002"}]),
        step("poll", "GET /jobs/job-3001", {"state": "running"}),
        step("poll", "GET /jobs/job-3001", {"state": "running"}),
        step("poll", "GET /jobs/job-3001", {"state": "done", "owner": "u-77", "result": "/out/o-3001"}),
        step("download", "GET /out/o-3001", "the output"),
        step("other", "GET /users/u-77", {"mail": "a@b.example"}),
    ],
    "UWS, the phase as text": [
        step("submit", "POST /async", status=303, Location="/async/job1a2b"),
        step("other", "GET /async/job1a2b", "<job/>"),
        step("other", "POST /async/job1a2b/phase", status=303, Location="/async/job1a2b"),
        step("poll", "GET /async/job1a2b/phase", "QUEUED"),
        step("poll", "GET /async/job1a2b/phase", "EXECUTING"),
        step("poll", "GET /async/job1a2b/phase", "COMPLETED"),
        step("download", "GET /async/job1a2b/results/result", "<VOTABLE/>"),
    ],
}
