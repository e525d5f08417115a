"""What exchanges prove, and what they do not."""

from __future__ import annotations

import json

from trihop._middleware.evidence import Evidence, Exchange, Seen

API = "https://api.example"


class Block:
    """Exchanges in order, and what is known of them in the end."""

    def __init__(self):
        self.evidence = Evidence()
        self.exchanges: list[Exchange] = []

    def ask(self, request, answer=None, *, status=200, carried="", **headers):
        method, _, path = request.partition(" ")
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        content = b"" if answer is None else answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        url = path if path.startswith("https:") else API + path
        self.exchanges.append(self.evidence.take(Seen(method, url, status, carried, fields, content)))
        return self.exchanges[-1]

    @property
    def roles(self):
        return [self.evidence.role(exchange) for exchange in self.exchanges]


def submitted(answer=None, **headers):
    block = Block()
    block.ask("POST /jobs", answer if answer is not None else {"id": "job-1"}, status=202, **headers)
    return block


def test_a_job_that_was_asked_for_once_is_not_named():
    """One question is no poll: it might be anything."""
    block = submitted()
    block.ask("GET /jobs/job-1", {"state": "running"})
    assert block.roles == ["request", "request"]


def test_asked_again_it_is_a_poll_and_its_giver_a_submit():
    """Both become known with the second question."""
    block = submitted()
    block.ask("GET /jobs/job-1")
    block.ask("GET /jobs/job-1")
    assert block.roles == ["submit", "poll", "poll"]


def test_a_repeat_after_an_error_is_a_resend():
    """Only an answer makes the next question a fresh one."""
    block = submitted()
    block.ask("GET /jobs/job-1", status=503)
    block.ask("GET /jobs/job-1", status=None)
    block.ask("GET /jobs/job-1")
    assert block.roles == ["request"] * 4


def test_what_nobody_handed_out_is_no_poll():
    """The same page twice is the same page twice."""
    block = submitted()
    block.ask("GET /about")
    block.ask("GET /about")
    assert block.roles == ["request"] * 3


def test_an_id_of_the_callers_own_is_no_evidence():
    """What a request carried before an answer quoted it was not handed out."""
    block = Block()
    block.ask("GET /tables/accounts", {"table": "accounts"})
    block.ask("POST /jobs", {"table": "accounts", "id": 7}, carried='{"table": "accounts"}')
    block.ask("GET /stats/accounts")
    block.ask("GET /stats/accounts")
    assert block.roles == ["request"] * 4


def test_short_values_are_no_ids():
    """A number of one digit is in every URL."""
    block = submitted({"id": 7, "v": "v2"})
    block.ask("GET /v2/jobs/7")
    block.ask("GET /v2/jobs/7")
    assert block.roles == ["request"] * 3


def test_a_whole_number_is_an_id():
    """As databases make them."""
    block = submitted({"id": 4711})
    block.ask("GET /jobs/4711")
    block.ask("GET /jobs/4711")
    assert block.roles == ["submit", "poll", "poll"]


def test_the_end_of_a_location_is_an_id():
    """Where the code builds another URL with it."""
    block = submitted({}, Location="/jobs/j-99")
    block.ask("GET /jobs/j-99/phase", b"QUEUED")
    block.ask("GET /jobs/j-99/phase", b"RUNNING")
    assert block.roles == ["submit", "poll", "poll"]
    assert block.exchanges[1].question.job_id == "j-99"


def test_a_word_at_the_end_of_a_location_is_none():
    """`/jobs/status` names no job."""
    block = submitted({}, Location="/jobs/status")
    block.ask("GET /machines/status")
    block.ask("GET /machines/status")
    assert block.roles == ["request"] * 3


def test_what_a_sign_in_hands_out_is_about_who_asks():
    """The limits of an account are no job, however often they are asked for."""
    block = Block()
    block.ask("POST /login", {"access_token": "t-12345", "user": {"id": "user-1"}})
    block.ask("GET /users/user-1/limits")
    block.ask("GET /users/user-1/limits")
    assert block.roles == ["request"] * 3


def test_a_sign_in_is_known_by_its_path_as_well():
    """One that sets a cookie hands out no token, and leads to a page about who asks."""
    for path in ("/login", "/accounts/log-in/", "/api/session", "/oauth2"):
        block = Block()
        block.ask(f"POST {path}", {"id": "user-4242"}, status=302, Location="/users/user-4242")
        for _ in range(2):
            block.ask("GET /users/user-4242")
        assert block.roles == ["request"] * 3


def test_a_page_token_is_no_sign_in():
    """Only names that are a credential's as a whole."""
    block = submitted({"id": "job-1", "nextPageToken": "abcd", "tokens_used": "12"})
    block.ask("GET /jobs/job-1")
    block.ask("GET /jobs/job-1")
    assert block.roles == ["submit", "poll", "poll"]


def test_a_list_hands_out_what_may_be_anybodys():
    """One item of a list that was asked for is looked at, maybe twice; one that was posted for is a job."""
    listed, posted = Block(), Block()
    listed.ask("GET /items", [{"id": "item-1"}])
    posted.ask("POST /items", [{"id": "item-1"}])
    for block in (listed, posted):
        block.ask("GET /items/item-1")
        block.ask("GET /items/item-1")
    assert (listed.roles, posted.roles) == (["request"] * 3, ["submit", "poll", "poll"])


def test_reading_what_one_has_changed_is_no_poll():
    """As programs do with things that they made: read, change, read again."""
    block = submitted({"id": "item-1"})
    for method in ("PUT", "PATCH", "DELETE"):
        block.ask("GET /items/item-1")
        block.ask(f"{method} /items/item-1", {"id": "item-1"})
    assert block.roles == ["request"] * 7


def test_a_poll_stays_one_after_a_request_to_cancel():
    """What is known to be a job's stays so, whatever is done to it."""
    block = submitted()
    for _ in range(2):
        block.ask("GET /jobs/job-1")
    block.ask("PATCH /jobs/job-1", {"state": "Aborted"})
    block.ask("GET /jobs/job-1")
    assert block.roles == ["submit", "poll", "poll", "request", "poll"]


def test_where_a_page_has_moved_to_is_no_job():
    """Whatever is asked under an old address is asked twice at the new one."""
    block = submitted()
    for _ in range(2):
        block.ask("GET /quota", status=301, Location="/account/quota-1")
        block.ask("GET /account/quota-1", {"left": 5})
        block.ask("GET /jobs/job-1")
    assert block.roles == ["submit", *["request", "request", "poll"] * 2]


def test_a_poll_that_ends_with_see_other_leads_to_its_result():
    """What the last poll led to is the download, and no further poll."""
    block = submitted()
    block.ask("GET /jobs/job-1")
    block.ask("GET /jobs/job-1", status=303, Location="/results/77")
    block.ask("GET /results/77", b"rows")
    assert block.roles == ["submit", "poll", "poll", "download"]


def test_a_redirect_is_part_of_the_download_it_led_to():
    """The place that a result's URL leads to is not known from any poll, and is the result all the same."""
    block = submitted()
    block.ask("GET /jobs/job-1")
    block.ask("GET /jobs/job-1", {"href": "/files/9"})
    block.ask("GET /files/9", status=302, Location="https://storage.example/a?sig=1")
    block.ask("GET https://storage.example/a?sig=1", status=307, Location="https://storage.example/b")
    block.ask("GET https://storage.example/b", b"rows")
    assert block.roles == ["submit", "poll", "poll", *["download"] * 3]
    assert [block.exchanges[at].again for at in (3, 4)] == block.exchanges[4:]


def test_a_redirect_is_part_of_the_submit_it_led_to():
    """307 and 308 have the same request made elsewhere."""
    block = Block()
    block.ask("POST /old", status=307, Location="/jobs")
    block.ask("POST /jobs", {"id": "job-1"}, status=202)
    block.ask("GET /jobs/job-1")
    block.ask("GET /jobs/job-1")
    assert block.roles == ["submit", "submit", "poll", "poll"]


def test_a_log_kept_elsewhere_is_not_the_download():
    """What is read between the polls is read too early, wherever it leads."""
    block = submitted()
    block.ask("GET /jobs/job-1")
    block.ask("GET /jobs/job-1/log", status=302, Location="https://storage.example/log")
    block.ask("GET https://storage.example/log", b"begun")
    block.ask("GET /jobs/job-1")
    block.ask("GET /quota")
    assert block.roles == ["submit", "poll", "request", "request", "poll", "request"]


def test_references_start_from_where_the_reply_came_from():
    """A server that adds a slash means the folder."""
    block = submitted()
    block.ask("GET /jobs/job-1")
    last = Seen("GET", f"{API}/jobs/job-1", 200, content=b'{"href": "/f"}', headers={"Location": "result"})
    block.exchanges.append(block.evidence.take(last._replace(base=f"{API}/jobs/job-1/")))
    assert block.evidence.handed_out_by(f"{API}/jobs/job-1/result") == f"{API}/jobs/job-1"


def test_a_202_of_its_own_proves_a_poll_without_a_giver():
    """The server itself says "later"."""
    block = Block()
    block.ask("GET /stats", status=202)
    block.ask("GET /stats")
    assert block.roles == ["poll", "poll"]


def test_a_log_below_the_job_is_not_the_poll():
    """Neither where it is asked second, nor where it is asked first and seemed to be one."""
    first, second = submitted(), submitted()
    for _ in range(4):
        first.ask("GET /jobs/job-1/log")
        first.ask("GET /jobs/job-1")
        second.ask("GET /jobs/job-1")
        second.ask("GET /jobs/job-1/log")
    assert first.roles == ["submit", *["request", "poll"] * 4]
    assert [role for role in second.roles if role == "poll"] == ["poll"] * 4


def test_a_poll_that_is_sure_stays_one():
    """After four askings spans have been begun: nothing takes that back."""
    block = submitted()
    for _ in range(4):
        block.ask("GET /jobs/job-1/state")
    for _ in range(2):
        block.ask("GET /jobs/job-1")
    assert block.roles == ["submit", *["poll"] * 6]


def test_what_a_poll_hands_out_is_no_poll_of_its_own():
    """A progress page asked for twice in between is beside the polls."""
    block = submitted()
    for _ in range(2):
        block.ask("GET /jobs/job-1", {"progress": "/progress/p-1"})
        block.ask("GET /progress/p-1")
    assert block.roles == ["submit", "poll", "request", "poll", "request"]


def test_a_result_that_says_later_is_polled():
    """202 on what the poll handed out: its own word goes first."""
    block = submitted()
    block.ask("GET /jobs/job-1", {"state": "running"})
    block.ask("GET /jobs/job-1", {"state": "done", "result": "/out/o-1"})
    block.ask("GET /out/o-1", status=202)
    block.ask("GET /out/o-1", status=200)
    assert block.roles == ["submit", "poll", "poll", "poll", "poll"]


def test_a_download_comes_after_the_last_poll():
    """What was fetched while the job ran, or handed out before its end, is not its result."""
    block = submitted()
    block.ask("GET /jobs/job-1", {"owner": "/users/u-77"})
    block.ask("GET /jobs/job-1", {"owner": "/users/u-77", "result": "/out/o-1"})
    block.ask("GET /out/o-1")
    block.ask("GET /users/u-77")
    assert block.roles == ["submit", "poll", "poll", "download", "request"]


def test_a_download_tried_too_early_is_none():
    """404 before the end; what is answered after it is the download, and both are one question."""
    block = submitted()
    block.ask("GET /jobs/job-1/result", status=404)
    block.ask("GET /jobs/job-1")
    block.ask("GET /jobs/job-1")
    block.ask("GET /jobs/job-1/result", b"content")
    assert block.roles[1:] == ["download", "poll", "poll", "download"]


def test_a_path_below_belongs_to_the_job_only_where_the_path_is_the_jobs():
    """`/jobs?id=job-1` is no folder of job-1, and the root of a host is nobody's."""
    block = submitted()
    for path in ("/jobs?id=job-1", "https://job-1.example/?job=job-1"):
        for _ in range(2):
            block.ask(f"GET {path}")
    block.ask("GET /jobs/summary")
    block.ask("GET https://job-1.example/about")
    assert block.roles == ["submit", "poll", "poll", "poll", "poll", "request", "request"]


def test_a_post_with_another_body_is_another_question():
    """GraphQL asks everything of one URL: a failed query is not sent again by the next one."""
    block = Block()
    block.ask("POST /graphql", status=503, carried="whoami")
    block.ask("POST /graphql", status=503, carried="start")
    block.ask("POST /graphql", {"id": "job-1"}, carried="start")
    block.ask("GET /jobs/job-1")
    block.ask("GET /jobs/job-1")
    assert block.roles == ["request", "submit", "submit", "poll", "poll"]


def test_streams_are_never_the_same_question():
    """What a generator carried nobody knows."""
    block = Block()
    block.ask("POST /jobs", status=503, carried=None)
    block.ask("POST /jobs", {"id": "job-1"}, carried=None)
    block.ask("GET /jobs/job-1")
    block.ask("GET /jobs/job-1")
    assert block.roles == ["request", "submit", "poll", "poll"]


def test_head_until_it_is_there():
    """A 202 handed the URL out, and it is not there yet; found at once, it was no wait."""
    waited, found = Block(), Block()
    for block in (waited, found):
        block.ask("POST /render", {"output": "/out/1.png"}, status=202)
    waited.ask("HEAD /out/1.png", status=404)
    for block in (waited, found):
        block.ask("HEAD /out/1.png")
        block.ask("GET /out/1.png")
    assert waited.roles == ["submit", "poll", "poll", "download"]
    assert found.roles == ["request"] * 3


def test_the_state_is_the_servers_word():
    """Read from every reply, also one that is word for word the one before; from no other field."""
    block = submitted()
    answers = [{"state": "a"}, {"state": "a"}, {"status": "b"}, {"phase": 3}, [1], b"no json"]
    assert [block.ask("GET /jobs/job-1", answer).state for answer in answers] == ["a", "a", "b", None, None, None]


def test_a_reply_that_is_no_json_or_too_large_proves_nothing():
    """And costs nothing."""
    block = Block()
    block.ask("POST /a", b'{"id": "job-1"')
    block.ask("POST /b", b'{"id": "job-1", "x": "' + b"x" * 70_000 + b'"}')
    block.ask("POST /c", b"[" * 60_000)
    block.ask("GET /jobs/job-1")
    block.ask("GET /jobs/job-1")
    assert block.roles == ["request"] * 5


def test_what_the_engine_submitted_and_polled_is_known():
    """Its job is polled by whoever asks for it, and its results are downloads."""
    block = Block()
    block.evidence.know("POST", f"{API}/jobs", [f"{API}/jobs/1", "job-1"])
    block.ask("GET /jobs/1")
    block.ask("GET /jobs/1")
    assert block.roles == ["poll", "poll"]

    block = Block()
    block.evidence.know("GET", f"{API}/jobs/1", [f"{API}/files/9"], polled=True)
    block.ask("GET /files/9")
    block.ask("GET /jobs/1")
    assert block.roles == ["request", "poll"]  # the last poll is a later one now


def test_links_know_who_handed_them_out():
    """The URL whose reply did; none for what the code wrote itself."""
    block = submitted({"link": "https://files.example/f?a=1&_=7"}, Location="/jobs/j-99")
    given = [
        block.evidence.handed_out_by(url) for url in (f"{API}/jobs/j-99", "https://files.example/f?a=1", f"{API}/x")
    ]
    assert given == [f"{API}/jobs", f"{API}/jobs", None]


def test_a_long_block_is_remembered_in_part():
    """Memory has an end, and what was known before stays known."""
    block = submitted()
    block.ask("GET /jobs/job-1")
    for number in range(21_000):
        block.evidence.take(Seen("GET", f"{API}/items/{number}", 200, "", {}, b'{"id": "x-%d"}' % number))
    block.ask("GET /jobs/job-1")
    assert block.roles == ["submit", "poll", "poll"]
    assert max(len(block.evidence._questions), len(block.evidence._handed)) <= 20_001
