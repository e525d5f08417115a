"""The demo server's provider: a table of words and fields, as one would write it for any API of this family."""

from trihop._pacing import Pacing
from trihop._provider import Provider
from trihop._surface import ReadJob, ReadState
from trihop._values import Call

PROVIDER = Provider(
    "trihop.demo",
    submit=ReadJob(id="id", status_url=None),
    status="query/{id}",
    poll=ReadState(
        "state",
        pending={"UploadComplete", "InProgress"},
        succeeded={"JobComplete"},
        failed={"Failed"},
        cancelled={"Aborted"},
        results="resultUrl",
        error="errorMessage",
        counts="numberRecordsFailed && {total: numberRecordsProcessed, failed: numberRecordsFailed}",
        bad_items="numberRecordsFailed",
        progress="progress",
    ),
    cancel=Call("PATCH", "query/{id}", json={"state": "Aborted"}),
    pacing=Pacing(first=0.5, cap=2.0),
)
