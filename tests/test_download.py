"""The download hop: a result whole, where it was asked for, or nothing at all."""

import gzip
import hashlib
import io
import os
import re
import stat
from dataclasses import replace
from pathlib import Path

import pytest
import requests

from trihop import (
    Call,
    Content,
    DeadlineExceeded,
    Gone,
    LinkExpired,
    Partial,
    Pending,
    Reply,
    Result,
    ResultCorrupt,
    ResultUnavailable,
    RetryPolicy,
    StatusUnavailable,
    Succeeded,
    SurfaceError,
    Transient,
    accepts,
    operation,
)
from trihop.providers import generic
from trihop.testing import accepted, chunked, close_delimited, done, reset, running, short, silent

CSV = Reply(200, content=b"a,b\n1,2\n3,4\n", headers={"Content-Type": "text/csv"})


ONE = (Result("/files/1"),)


@pytest.fixture
def op(clock):
    """An open operation."""
    with operation("export", deadline=3600, clock=clock) as op:
        yield op


@pytest.fixture
def export(server, clock):
    """Submits, polls once and downloads; the job left these results, the replies are those of the downloads."""

    def export(*replies, results=ONE, provider=generic.ACCEPTED, deadline=3600, **options):
        server.script(accepted(), 200, *replies)
        surface = options.pop("surface", provider.download)
        provider = replace(provider, poll=lambda reply, job: Succeeded("done", results=results))
        with operation("export", deadline=deadline, clock=clock, provider=provider) as op:
            return op.download(op.poll(op.submit("POST", f"{server.url}jobs")), surface=surface, **options)

    return export


def paths(server):
    """The requests after submit and poll."""
    return [call.path for call in server.calls[2:]]


def whole(folder):
    """Every file in a folder with what is in it, hidden ones too."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# ---- where it goes


def test_a_path_gets_the_whole_result(export, tmp_path):
    """The file is there, for its owner alone, and what is known of it comes back."""
    target = tmp_path / "rows.csv"

    download = export(CSV, to=target)

    assert whole(tmp_path) == {"rows.csv": CSV.content}
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert (download.path, download.size_bytes, download.content_type, download.parts, download.resumes) == (
        target,
        12,
        "text/csv",
        1,
        0,
    )
    assert (download.content, download.text) == (CSV.content, "a,b\n1,2\n3,4\n")


def test_a_path_may_be_a_str(export, tmp_path):
    """As in open()."""
    assert export(CSV, to=str(tmp_path / "rows.csv")).path == tmp_path / "rows.csv"


def test_while_it_comes_there_is_a_part_file_of_mode_0600(export, tmp_path):
    """The target does not show until it is whole; the part beside it is hidden and its owner's alone."""
    seen = []

    def look(call):
        seen.extend((path.name, stat.S_IMODE(path.stat().st_mode)) for path in tmp_path.iterdir())
        return CSV

    old = os.umask(0)
    try:
        export(look, to=tmp_path / "rows.csv")
    finally:
        os.umask(old)

    [(name, mode)] = seen
    assert re.fullmatch(r"\.rows\.csv\.[0-9a-f]{8}\.part", name)
    assert mode == 0o600
    assert whole(tmp_path) == {"rows.csv": CSV.content}


FAILURES = {
    "gone": ([404, 200], {}, ResultUnavailable),
    "cut short": ([short(CSV, 5)], {"retry": RetryPolicy(attempts=1)}, ResultCorrupt),
    "wrong digest": ([CSV], {"sha256": "0" * 64}, ResultCorrupt),
    "too large": ([CSV], {"max_size": 11}, ResultUnavailable),
    "nonsense": ([CSV], {"surface": lambda reply, result: "fine"}, SurfaceError),
    "the caller's own": ([CSV], {"surface": lambda reply, result: 1 / 0}, ZeroDivisionError),
    "interrupted": (
        [CSV],
        {"surface": lambda reply, result: (_ for _ in ()).throw(KeyboardInterrupt)},
        KeyboardInterrupt,
    ),
}


@pytest.mark.parametrize(("replies", "options", "error"), FAILURES.values(), ids=FAILURES)
def test_a_download_that_fails_leaves_the_target_alone(export, tmp_path, replies, options, error):
    """What was at the target before is there afterwards, and no part file is left."""
    target = tmp_path / "rows.csv"
    target.write_bytes(b"yesterday's")

    with pytest.raises(error):
        export(*replies, to=target, **options)

    assert whole(tmp_path) == {"rows.csv": b"yesterday's"}


def test_a_download_that_succeeds_replaces_the_target(export, tmp_path):
    """Yesterday's file is replaced in one step."""
    (tmp_path / "rows.csv").write_bytes(b"yesterday's, which was longer than today's")

    export(CSV, to=tmp_path / "rows.csv")

    assert whole(tmp_path) == {"rows.csv": CSV.content}


def test_a_place_that_cannot_be_written_to_is_found_out_first(export, server, clock, tmp_path):
    """A missing folder, or a folder where a file should go, is an OSError before anything is fetched."""
    with pytest.raises(FileNotFoundError):
        export(to=tmp_path / "missing" / "rows.csv")
    with pytest.raises(IsADirectoryError, match="is a directory; name a file, or use into="):
        export(to=tmp_path)

    with pytest.raises(FileNotFoundError), operation("export", deadline=60, clock=clock) as op:
        op.run("POST", f"{server.url}jobs", to=tmp_path / "missing" / "rows.csv")

    assert paths(server) == ["/jobs", "/jobs/1"]  # the second operation's; the third did not submit


def test_the_longest_name_a_file_may_have(export, tmp_path):
    """A name of 255 bytes leaves no room for a longer one beside it, and needs none."""
    target = tmp_path / ("n" * 251 + ".csv")

    export(CSV, to=target)

    assert target.read_bytes() == CSV.content


def test_a_full_disk_is_an_oserror(export, tmp_path, monkeypatch):
    """It comes as it was raised, it is no network error to be tried again, and nothing is left."""
    from trihop._results import part_file as _part_file

    def full(self, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_part_file.PartFile, "write", full)
    with pytest.raises(OSError, match="No space left") as caught:
        export(CSV, to=tmp_path / "rows.csv")

    assert (caught.value.errno, whole(tmp_path)) == (28, {})


def test_a_file_object_is_written_from_where_it_stands(export, tmp_path):
    """It stays open, and what was in it before stays."""
    with (tmp_path / "rows.csv").open("w+b") as file:
        file.write(b"head\n")
        download = export(CSV, to=file)
        file.write(b"tail\n")

    assert whole(tmp_path) == {"rows.csv": b"head\n" + CSV.content + b"tail\n"}
    assert (download.path, download.size_bytes) == (None, 12)
    with pytest.raises(ValueError, match="went to a file object; read it there"):
        download.content  # noqa: B018


def test_a_file_object_is_rewound_when_a_transfer_breaks_off(export):
    """A resend starts where the first attempt did; a failure takes back what it wrote."""
    file = io.BytesIO(b"head\n")
    file.seek(0, io.SEEK_END)

    export(short(CSV, 5), CSV, to=file)
    assert file.getvalue() == b"head\n" + CSV.content
    with pytest.raises(ResultCorrupt):
        export(CSV, to=file, sha256="0" * 64)
    assert file.getvalue() == b"head\n" + CSV.content


class Pipe(io.RawIOBase):
    """Can be written to and nothing else."""

    def __init__(self):
        self.got = b""

    def writable(self):
        return True

    def write(self, data):
        self.got += bytes(data)
        return len(data)


def test_a_pipe_gets_the_bytes(export):
    """A file object that cannot seek will do where nothing breaks off, and before anything was written."""
    pipe = Pipe()
    export(503, CSV, to=pipe)
    assert pipe.got == CSV.content


def test_a_pipe_that_got_half_cannot_be_taken_back(export):
    """Half a result in a pipe is told, and not sent a second time."""
    with pytest.raises(ResultCorrupt, match=r"cannot seek.*Pass a path, or a file object that can seek"):
        export(short(CSV, 5), to=Pipe())


def test_a_gzip_file_is_a_file_object(export):
    """What has write() and takes bytes will do."""
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb") as file:
        export(CSV, to=file)

    assert gzip.decompress(packed.getvalue()) == CSV.content


@pytest.mark.parametrize("to", [io.StringIO(), Path(os.devnull)], ids=["StringIO", "open(…, 'w')"])
def test_a_file_for_text_is_refused(op, server, to):
    """It says at once what it takes, and fetches nothing."""
    with to.open("w") if isinstance(to, Path) else to as file:
        for use in (lambda: op.download(f"{server.url}x", to=file), lambda: op.run("POST", server.url, to=file)):
            with pytest.raises(TypeError, match="'export': to= takes a file opened for bytes"):
                use()

    assert server.calls == []


# ---- in memory


def test_memory_reads_as_text_json_lines_and_rows(op, server):
    """The result is at hand in the shapes that results have."""
    server.script(CSV, {"n": 1}, Reply(200, content=b'{"n": 1}\n\n{"n": 2}\n'), [{"n": 3}], "\ufeffa,b\r\n1,\u00e9\r\n")
    csv, json, lines, array, dos = (op.download(f"{server.url}files/{n}") for n in range(5))

    assert (csv.path, list(csv.iter_lines())) == (None, ["a,b", "1,2", "3,4"])
    assert list(csv.iter_rows()) == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]
    assert json.json() == {"n": 1}
    assert list(lines.iter_rows()) == [{"n": 1}, {"n": 2}]
    assert list(array.iter_rows()) == [{"n": 3}]
    assert list(dos.iter_rows()) == [{"a": "1", "b": "\u00e9"}]
    assert list(dos.iter_lines()) == ["a,b", "1,\u00e9"]


@pytest.mark.parametrize(
    ("content", "kind", "read", "said"),
    [
        (b"[" * 100_000, "application/json", lambda it: it.json(), "nested too deeply"),
        (b"[" * 100_000, "application/x-ndjson", lambda it: list(it.iter_rows()), "nested too deeply"),
        (
            b"a\n" + b"x" * 140_000,
            "text/csv",
            lambda it: list(it.iter_rows()),
            r"limit \(131072\); csv.field_size_limit",
        ),
        (b"\x1f\x8bno", "text/csv", lambda it: it.text, "begins like gzip and cannot be unpacked"),
        (b"\x1f\x8bno", "text/csv", lambda it: list(it.iter_lines()), "begins like gzip and cannot be unpacked"),
        (
            b"\x1f\x8b\x08" + b"\0" * 7 + b"no",
            "text/csv",
            lambda it: it.json(),
            "begins like gzip and cannot be unpacked",
        ),
    ],
)
def test_what_cannot_be_read_is_a_value_error(op, server, content, kind, read, said):
    """Whatever the reader underneath makes of it; the bytes are there all the same."""
    server.on("GET", "/f", Reply(200, content=content, headers={"Content-Type": kind}))
    download = op.download(f"{server.url}f")

    with pytest.raises(ValueError, match=said):
        read(download)
    assert download.content == content


def test_json_lines_may_hold_any_json(op, server):
    """What says that it is JSON lines is read so, whatever its lines begin with."""
    server.script(Reply(200, content=b'1\n"two"\n[3]\n', headers={"Content-Type": "application/x-ndjson"}))

    assert list(op.download(f"{server.url}files/1").iter_rows()) == [1, "two", [3]]


@pytest.mark.parametrize(
    ("data", "content"),
    [
        (None, b"null"),
        ({"n": [1]}, b'{"n": [1]}'),
        ([], b"[]"),
        (0, b"0"),
        ("a,b\n", b"a,b\n"),
        ("", b""),
        (b"\x00", b"\x00"),
    ],
    ids=repr,
)
def test_a_result_at_hand_is_treated_like_a_place(export, server, tmp_path, data, content):
    """What came in the poll's body is written like a download, null included, and nothing is asked."""
    download = export(results=(Result(data=data),), to=tmp_path / "result")

    assert (whole(tmp_path), download.size_bytes, paths(server)) == ({"result": content}, len(content), [])


def test_a_result_at_hand_is_checked_like_a_place(export):
    """Size and digest hold for it, too."""
    with pytest.raises(ResultUnavailable, match="larger than max_size=3 bytes"):
        export(results=(Result(data="a,b\n"),), max_size=3)
    with pytest.raises(ResultCorrupt, match="expected 00"):
        export(results=(Result(data="a,b\n"),), sha256="00" * 32)


def test_a_job_without_results_is_nothing_in_memory_and_an_error_for_a_file(export, tmp_path):
    """There is nothing to write to a file that somebody will look for."""
    assert export(results=()).content == b""
    with pytest.raises(ResultUnavailable, match="the job left no result to download"):
        export(results=(), to=tmp_path / "rows.csv")


def test_an_empty_result_is_a_result(export, tmp_path):
    """Zero bytes are written as a file of zero bytes."""
    download = export(Reply(200, content=b""), to=tmp_path / "rows.csv")

    assert (whole(tmp_path), download.size_bytes, list(download.iter_rows())) == ({"rows.csv": b""}, 0, [])


# ---- what is asked


@pytest.mark.parametrize(
    "what",
    [
        lambda url: f"{url}files/1",
        lambda url: Call("GET", f"{url}files/1"),
        lambda url: Result(f"{url}files/1"),
        lambda url: Result(Call("POST", f"{url}files/1", json={"part": 2})),
    ],
    ids=["url", "call", "result", "post"],
)
def test_a_url_a_call_or_a_result_can_be_downloaded(op, server, what):
    """Without a poll before it, what to fetch is said by any of these."""
    server.script(CSV)

    assert op.download(what(server.url)).content == CSV.content
    assert server.calls[0].path == "/files/1"


def test_redirects_are_followed(export, server):
    """A result may be elsewhere, and elsewhere again."""
    moves = [Reply(status, headers={"Location": f"/{status}/1?x=%7E"}) for status in (301, 302, 303, 307, 308)]

    assert export(*moves, CSV).content == CSV.content
    assert paths(server) == ["/files/1", *[f"/{status}/1?x=%7E" for status in (301, 302, 303, 307, 308)]]


def test_a_signed_link_goes_out_byte_for_byte(export, server):
    """Nothing of it is decoded, encoded or tidied up: its signature is over these bytes."""
    link = "/a//b/../%7e/%c3%a9?sig=a%2Bb+c==&X=%2f"

    export(CSV, results=(Result(link),))

    assert paths(server) == [link]


def test_bytes_are_asked_for_as_they_are(export, server):
    """No content encoding is asked for: lengths add up, and nothing is packed to be unpacked here."""
    export(CSV)

    assert server.calls[2].headers["Accept-Encoding"] == "identity"


PACKED = Reply(200, content=gzip.compress(CSV.content, mtime=0), headers={"Content-Encoding": "gzip"})


def test_a_content_encoding_is_undone_unless_told_not_to(op, server):
    """A server that packs all the same is unpacked; decode=False keeps the bytes."""
    server.script(PACKED, PACKED, chunked(PACKED, 7))

    assert op.download(f"{server.url}x").content == CSV.content
    assert op.download(f"{server.url}x", decode=False).content == PACKED.content
    assert op.download(f"{server.url}x").content == CSV.content


def test_a_packed_body_that_breaks_off_is_no_result(op, server):
    """Half a gzip stream is tried again and then told, not unpacked as far as it goes."""
    server.script(short(PACKED, 10), PACKED)
    assert op.download(f"{server.url}x").content == CSV.content

    server.script(then_always=close_delimited(Reply(200, content=PACKED.content[:15], headers=PACKED.headers)))
    with pytest.raises((ResultCorrupt, ResultUnavailable)):
        op.download(f"{server.url}x")


# ---- what does not add up


@pytest.mark.parametrize("broken", [short(CSV, 5), short(chunked(CSV, 4), 9), reset(CSV, 5), reset(CSV)], ids=repr)
def test_a_transfer_that_broke_off_is_tried_again(export, server, tmp_path, broken):
    """The second attempt starts from the first byte, and digest and size are those of the whole."""
    digest = hashlib.sha256(CSV.content).hexdigest()

    download = export(broken, CSV, to=tmp_path / "rows.csv", sha256=digest)

    assert (whole(tmp_path), download.sha256, download.size_bytes) == ({"rows.csv": CSV.content}, digest, 12)
    assert paths(server) == ["/files/1"] * 2


def test_a_body_shorter_than_its_length_is_corrupt_in_the_end(export, server, clock):
    """Three attempts, then an error that says how often and why; the pauses between are backoff."""
    with pytest.raises(ResultCorrupt, match=r"broke off 3 times, last \(body_truncated\); the length did not add up"):
        export(*[short(CSV, 5)] * 3)

    assert (paths(server), clock.sleeps) == (["/files/1"] * 3, [1, 1, 2])


def test_a_download_folds_its_attempts(export, spans):
    """A resend that cured an error leaves the span clean; sizes and attempts are on it."""
    export(503, short(CSV, 5), CSV)

    span = spans.named("download export")
    assert {name: span.attributes[name] for name in span.attributes if name.startswith("trihop.download.")} == {
        "trihop.download.size": 12,
        "trihop.download.expected_size": 12,
        "trihop.download.pages": 1,
        "trihop.download.resumes": 0,
    }
    assert span.status.status_code.name == "UNSET"
    assert [event.attributes.get("error.type") for event in span.events] == ["503", "body_truncated", None]


def test_a_digest_is_checked_whoever_named_it(export, tmp_path):
    """The caller's or the server's, in either case of its digits; a wrong one leaves nothing."""
    digest = hashlib.sha256(CSV.content).hexdigest()

    assert export(CSV, sha256=digest.upper()).sha256 == digest
    assert export(CSV, results=(Result("/f", sha256=digest),)).sha256 == digest
    assert export(CSV).sha256 is None
    with pytest.raises(ResultCorrupt, match=f"its sha256 is {digest}, expected {'0' * 64}"):
        export(CSV, results=(Result("/f", sha256="0" * 64),), to=tmp_path / "rows.csv")
    assert whole(tmp_path) == {}


def test_a_size_that_was_announced_is_checked(export):
    """A result of another size than the job said is not that result."""
    assert export(CSV, results=(Result("/f", size_bytes=12),)).size_bytes == 12
    with pytest.raises(ResultCorrupt, match="it has 12 bytes, expected 13"):
        export(CSV, results=(Result("/f", size_bytes=13),))


def test_a_result_may_be_as_large_as_it_may_be(export, server):
    """max_size is a limit that is kept, not one that is passed, and a larger result is not tried again."""
    assert export(CSV, max_size=12).size_bytes == 12
    with pytest.raises(ResultUnavailable, match="larger than max_size=11 bytes"):
        export(CSV, max_size=11)
    with pytest.raises(ResultUnavailable, match="larger than max_size=11 bytes"):
        export(chunked(CSV, 3), max_size=11)


# ---- what is not there


@pytest.mark.parametrize("status", [400, 404, 410, 451])
def test_a_result_that_is_not_there_is_unavailable(op, server, status):
    """The error says what the server said, and what to do next."""
    server.script(Reply(status, {"error": {"code": "NoSuchKey", "message": "gone for good"}}))

    with pytest.raises(ResultUnavailable, match=f"server says {status}: NoSuchKey: gone for good") as caught:
        op.download(f"{server.url}files/1")

    assert (caught.value.hop, caught.value.status_code) == ("download", status)


def test_a_server_that_says_not_now_is_asked_again(export, server, clock):
    """5xx and 429 are tried again within the hop's policy, as the server hints."""
    export(Reply(503, headers={"Retry-After": "40"}), 429, CSV)

    assert clock.sleeps == [1, 40, 2]


def test_the_policy_of_the_hop_bounds_its_attempts(export, server):
    """retry= says how often; the last error is told."""
    with pytest.raises(ResultUnavailable, match="fetching it failed 2 times, last with 503"):
        export(503, 503, retry=RetryPolicy(attempts=2))
    with pytest.raises(ResultUnavailable, match="fetching it failed with 500"):
        export(500, retry=RetryPolicy(attempts=3, on={503}))

    server.assert_done()


def test_a_status_that_the_policy_names_is_tried_again(export, server):
    """A store that shows a new file late answers 404 at first: `retry=` may say so, and no fresh link is asked for."""
    policy = RetryPolicy(attempts=2, on={404})

    assert export(404, CSV, retry=policy).content == CSV.content
    with pytest.raises(ResultUnavailable, match="fetching it failed 2 times, last with 404"):
        export(404, 404, retry=policy)
    server.assert_done()


def test_a_pause_between_attempts_is_bounded_by_the_deadline(export):
    """A hint that does not fit is refused on this hop as well."""
    with pytest.raises(DeadlineExceeded, match="asked for 60 s and 29 s are left") as caught:
        export(Reply(503, headers={"Retry-After": "60"}), deadline=30)

    assert (caught.value.hop, caught.value.phase) == ("download", "wait")


def links(*urls):
    """A poll surface that hands these out, one a poll."""
    given = iter(urls)
    return lambda reply, job: Succeeded("done", results=(Result(next(given)),))


@pytest.fixture
def link_export(server, clock):
    """Submits, polls and downloads from a job whose polls hand out these links."""

    def link_export(urls, *replies, **options):
        server.script(accepted(), 200, *replies)
        provider = replace(generic.ACCEPTED, poll=links(*urls))
        with operation("export", deadline=3600, clock=clock, provider=provider) as op:
            return op.download(op.poll(op.submit("POST", f"{server.url}jobs")), **options)

    return link_export


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_a_link_that_ran_out_is_renewed_by_one_poll(link_export, server, spans, status):
    """The poll is an attempt of the download, and its fresh link is fetched."""
    assert link_export(["/files/1?v=1", "/files/1?v=2"], status, 200, CSV).content == CSV.content

    assert paths(server) == ["/files/1?v=1", "/jobs/1", "/files/1?v=2"]
    assert spans.named("download export").attributes["trihop.download.link_refreshes"] == 1
    assert spans.named("export").attributes["trihop.operation.polls"] == 2
    assert spans.named("poll export").attributes["trihop.poll.attempts"] == 1


def test_a_link_that_comes_back_the_same_is_not_asked_again(link_export, server):
    """A poll that gives the same link is told so, in the error."""
    with pytest.raises(ResultUnavailable, match="server says 403, and a fresh poll gave the same link"):
        link_export(["/files/1", "/files/1"], 403, 200)

    assert paths(server) == ["/files/1", "/jobs/1"]


def test_a_link_is_renewed_once(link_export, server):
    """A fresh link that is refused as well is the end."""
    with pytest.raises(ResultUnavailable, match="server says 403"):
        link_export(["/files/1", "/files/2", "/files/3"], 403, 200, 403)

    assert paths(server) == ["/files/1", "/jobs/1", "/files/2"]


def test_a_surface_that_knows_better_is_believed(link_export, server):
    """Gone asks for no fresh link, LinkExpired does, whatever the status was."""
    with pytest.raises(ResultUnavailable, match="server says kept for a day"):
        link_export(["/files/1", "/files/2"], CSV, surface=lambda reply, result: Gone("kept for a day"))
    assert paths(server) == ["/files/1"]

    verdicts = iter([LinkExpired("old"), Content()])
    assert link_export(["/a", "/b"], CSV, 200, CSV, surface=lambda reply, result: next(verdicts)).content == CSV.content


def test_a_job_that_is_forgotten_when_a_link_is_renewed_is_a_result_out_of_reach(link_export):
    """The job ended well; that its monitor knows it no more makes its result unavailable, not the job a failure."""
    with pytest.raises(ResultUnavailable, match=r"server says 403.*knows the job no more"):
        link_export(["/files/1"], 403, 404)


def test_a_link_without_a_job_is_not_renewed(op, server):
    """There is nobody to ask for a fresh one."""
    server.script(403)

    with pytest.raises(ResultUnavailable, match="server says 403"):
        op.download(f"{server.url}files/1")


def test_renewal_finds_the_result_by_its_name(server, clock, tmp_path):
    """Of several results with one name the second one's fresh link is the second one."""
    server.script(accepted(), 200, b"first", 403, 200, b"second")
    given = iter([("/a1", "/b1"), ("/a2", "/b2")])
    provider = replace(
        generic.ACCEPTED,
        poll=lambda reply, job: Succeeded("done", results=tuple(Result(url, name="rows") for url in next(given))),
    )
    with operation("export", deadline=60, clock=clock, provider=provider) as op:
        downloads = op.download(op.poll(op.submit("POST", f"{server.url}jobs")), into=tmp_path)

    assert {name: download.content for name, download in downloads.items()} == {"rows": b"first", "rows-2": b"second"}
    assert paths(server) == ["/a1", "/b1", "/jobs/1", "/b2"]


def test_a_single_use_link_is_fetched_once(export, server):
    """A transfer that broke off has used it up: no second request, and the error says why."""
    for broken in (short(CSV, 5), reset(CSV), silent()):
        with pytest.raises(ResultUnavailable, match="the link works once only"):
            export(broken, results=(Result("/once", single_use=True),), timeout=0.05)

    assert [call.path for call in server.calls].count("/once") == 3


def test_a_single_use_link_that_was_not_served_is_still_good(export, server):
    """A 503 did not hand the result out, so the link is tried again."""
    assert export(503, CSV, results=(Result("/once", single_use=True),)).content == CSV.content


def test_a_result_that_is_not_there_yet_is_polled_for(link_export, server, clock, spans):
    """202 means not ready: the monitor is asked again, paced like a poll, on the download's own span."""
    assert link_export(["/f"] * 3, Reply(202, headers={"Retry-After": "5"}), 200, 202, 200, CSV).content == CSV.content

    assert paths(server) == ["/f", "/jobs/1", "/f", "/jobs/1", "/f"]
    assert clock.sleeps == [1, 5, 2]
    assert spans.named("poll export").attributes["trihop.poll.attempts"] == 1
    assert len(spans.named("download export").events) == 5


def test_a_result_that_is_not_there_yet_without_a_job_is_asked_for_again(op, server, clock):
    """With nobody to poll, the URL itself is asked again, paced."""
    server.script(202, 202, CSV)

    assert op.download(f"{server.url}files/1").content == CSV.content
    assert clock.sleeps == [1, 2]


# ---- pages


def rows(reply, result):
    """A page of CSV; the next one is named in a header."""
    return Content(header_lines=1, next=reply.headers.get("X-Next"))


def page(content, following=None):
    headers = {"Content-Type": "text/csv"} | ({} if following is None else {"X-Next": following})
    return Reply(200, content=content, headers=headers)


PAGES = [page(b"a,b\n1,2\n", "?page=2"), page(b"a,b\n3,4\n", "/other/3"), page(b"a,b\n5,6\n")]


def test_pages_become_one_result(export, server, tmp_path, spans):
    """Header lines are kept of the first page alone; the next page is relative to the one that named it."""
    download = export(*PAGES, results=(Result("/rows?page=1"),), surface=rows, to=tmp_path / "rows.csv")

    assert whole(tmp_path) == {"rows.csv": b"a,b\n1,2\n3,4\n5,6\n"}
    assert (download.parts, download.size_bytes) == (3, 16)
    assert paths(server) == ["/rows?page=1", "/rows?page=2", "/other/3"]
    assert spans.named("download export").attributes["trihop.download.pages"] == 3


def test_pages_in_memory_are_the_same(export):
    """No file is needed for paging."""
    assert export(*PAGES, surface=rows).content == b"a,b\n1,2\n3,4\n5,6\n"


def test_a_page_that_breaks_off_is_fetched_again_alone(export, server, tmp_path):
    """The pages before it stay, and what came of it is taken back."""
    digest = hashlib.sha256(b"a,b\n1,2\n3,4\n5,6\n").hexdigest()
    replies = [PAGES[0], short(PAGES[1], 6), 503, *PAGES[1:]]

    export(*replies, surface=rows, to=tmp_path / "rows.csv", sha256=digest)

    assert whole(tmp_path) == {"rows.csv": b"a,b\n1,2\n3,4\n5,6\n"}
    assert paths(server) == ["/files/1", *["/files/1?page=2"] * 3, "/other/3"]


def test_header_lines_may_be_cut_anywhere(export):
    """A page that comes in drops loses its header lines all the same, and a page of a header alone loses all."""
    replies = [
        page(b"#1\na\n1\n", "?2"),
        chunked(page(b"#2\r\na\n2\n", "?3"), 1),
        page(b"#3\na", "?4"),
        page(b"#4\na\n4"),
    ]

    content = export(
        *replies, surface=lambda reply, result: Content(header_lines=2, next=reply.headers.get("X-Next"))
    ).content  # fmt: skip

    assert content == b"#1\na\n1\n2\n4"


def test_items_become_json_lines(export, server, tmp_path):
    """A page's items are written a line each, whatever the page around them looks like."""

    def items(reply, result):
        body = reply.json()
        return Content(items=body["items"], next=body.get("next"))

    download = export(
        {"items": [{"n": 1}, {"n": "\u00e9"}], "next": "?token=b"},
        {"items": [], "next": "?token=c"},
        {"items": [{"n": None}]},
        surface=items,
        to=tmp_path / "rows.jsonl",
    )

    assert list(download.iter_rows()) == [{"n": 1}, {"n": "\u00e9"}, {"n": None}]
    assert (download.content.count(b"\n"), download.content_type, download.parts) == (3, "application/x-ndjson", 3)
    assert paths(server) == ["/files/1", "/files/1?token=b", "/files/1?token=c"]


def test_a_next_page_may_be_a_call(export, server):
    """Pages by POST: method, body and headers are those of the call."""

    def by_post(reply, result):
        token = reply.json().get("token")
        following = Call("POST", result.at.url, json={"id": 7, "token": token}, headers={"X-Target": "Rows"})
        return Content(items=reply.json()["rows"], next=following if token else None)

    first = Result(Call("POST", "/rows", json={"id": 7}, headers={"X-Target": "Rows"}))
    download = export({"rows": [1], "token": "b"}, {"rows": [2]}, results=(first,), surface=by_post)

    assert download.text == "1\n2\n"
    assert [(call.method, call.path, call.json(), call.headers["X-Target"]) for call in server.calls[2:]] == [
        ("POST", "/rows", {"id": 7}, "Rows"),
        ("POST", "/rows", {"id": 7, "token": "b"}, "Rows"),
    ]


def test_the_next_page_may_be_named_by_a_link(export, server):
    """`Link: rel="next"` (RFC 8288), relative like any other reference."""

    def by_link(reply, result):
        return Content(next=reply.links.get("next", {}).get("url"))

    first = Reply(200, content=b"1\n", headers={"Link": '<?page=2>; rel="next", </>; rel="index"'})
    assert export(first, b"2\n", surface=by_link).content == b"1\n2\n"
    assert paths(server) == ["/files/1", "/files/1?page=2"]


def test_a_page_that_names_itself_is_told(export, server):
    """A surface that gives the same page for ever is at fault, and the download ends."""
    with pytest.raises(SurfaceError, match="names the same page as its next one"):
        export(CSV, CSV, results=(Result("/files/1?page=2"),), surface=lambda reply, result: Content(next="?page=2"))

    assert paths(server) == ["/files/1?page=2"]


def test_a_later_page_that_is_refused_is_the_end(export, server, tmp_path):
    """A link of page two cannot be renewed by a poll that knows page one: nothing is left at the target."""
    with pytest.raises(ResultUnavailable, match="server says 403"):
        export(PAGES[0], 403, surface=rows, to=tmp_path / "rows.csv")

    assert whole(tmp_path) == {}


# ---- several results


def named(*names):
    return tuple(Result(f"/{n}", name=name) for n, name in enumerate(names))


def test_a_folder_gets_each_result_under_its_name(export, tmp_path):
    """The folder is made; a name without an extension gets that of its content type."""
    replies = [
        Reply(200, content=b"{}\n", headers={"Content-Type": "application/x-ndjson"}),
        Reply(200, content=b"a\n", headers={"Content-Type": "text/csv; charset=utf-8"}),
        Reply(200, {"n": 1}),
        Reply(200, content=b"?"),
    ]

    downloads = export(*replies, results=named("good", "bad.txt", "summary", "rest"), into=tmp_path / "a" / "b")

    assert whole(tmp_path / "a" / "b") == {
        "good.ndjson": b"{}\n",
        "bad.txt": b"a\n",
        "summary.json": b'{"n": 1}',
        "rest": b"?",
    }
    assert {name: download.path.name for name, download in downloads.items()} == {
        "good": "good.ndjson",
        "bad.txt": "bad.txt",
        "summary": "summary.json",
        "rest": "rest",
    }


@pytest.mark.parametrize(
    ("names", "keys", "files"),
    [
        (["rows", "rows", "rows"], ["rows", "rows-2", "rows-3"], ["rows", "rows-2", "rows-3"]),
        (["rows", "rows", "rows-2"], ["rows", "rows-2", "rows-2-2"], ["rows", "rows-2", "rows-2-2"]),
        (["a/b", "a_b", "a:b"], ["a/b", "a_b", "a:b"], ["a_b", "a_b-2", "a_b-3"]),
        (["Rows", "rows"], ["Rows", "rows"], ["Rows", "rows-2"]),
        (["..", ".", "", "/"], ["..", ".", "", "/"], ["result", "result-2", "result-3", "_"]),
        (["../../etc/passwd", ".bashrc", "a\x00b\n"], ["../../etc/passwd", ".bashrc", "a\x00b\n"],
         ["_.._etc_passwd", "bashrc", "a_b_"]),
    ],
    ids=["three of a name", "a clash with a number", "separators", "case", "no names at all", "hostile"],
)  # fmt: skip
def test_names_become_names_of_files(export, tmp_path, names, keys, files):
    """No result overwrites another, leaves the folder or hides in it, whatever it is called."""
    contents = [str(n).encode() for n in range(len(names))]

    downloads = export(*contents, results=named(*names), into=tmp_path / "out")

    assert list(downloads) == keys
    assert [download.path.name for download in downloads.values()] == files
    assert [download.content for download in downloads.values()] == contents
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == set(files)


def test_an_extension_that_is_added_clashes_with_nobody(export, tmp_path):
    """`rows` as JSON and `rows.json` are two files."""
    results = named("rows.json", "rows")

    downloads = export({"n": 1}, {"n": 2}, results=results, into=tmp_path)

    assert [(download.path.name, download.json()) for download in downloads.values()] == [
        ("rows.json", {"n": 1}), ("rows-2.json", {"n": 2}),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["n" * 300, "\u00e9" * 300, "\u6f22" * 300])
def test_a_long_name_is_cut(export, tmp_path, name):
    """As a name of a file it has room, in bytes."""
    [download] = export(CSV, results=named(name), into=tmp_path).values()

    assert download.content == CSV.content
    assert name.startswith(download.path.name[:20])


def test_one_of_several_is_chosen_by_its_name(server, clock, tmp_path):
    """ready["name"] is the job with that result alone; without a choice the call says what there is."""
    server.script(accepted(), 200, CSV)
    provider = replace(
        generic.ACCEPTED, poll=lambda reply, job: Succeeded("done", results=named("good", "failedResults"))
    )
    with operation("export", deadline=60, clock=clock, provider=provider) as op:
        ready = op.poll(op.submit("POST", f"{server.url}jobs"))
        with pytest.raises(ValueError, match=r"'export': 2 results \(good, failedResults\); pass into= for all"):
            op.download(ready)
        with pytest.raises(KeyError, match=r"no result named 'bad'; there is: good, failedResults"):
            op.download(ready["bad"])
        assert op.download(ready["failedResults"], to=tmp_path / "failed.csv").name == "failedResults"

    assert paths(server) == ["/1"]


def test_a_place_is_to_or_into(op, server, tmp_path):
    """Both at once make no sense."""
    with pytest.raises(ValueError, match=r"'export': download\(\) takes to= or into=, not both"):
        op.download(f"{server.url}x", to=tmp_path / "x", into=tmp_path)


def test_several_results_are_one_hop(export, spans, tmp_path):
    """The span counts them together."""
    export(b"123", b"45", results=named("a", "b"), into=tmp_path)

    span = spans.named("download export")
    assert (span.attributes["trihop.download.size"], span.attributes["trihop.download.pages"]) == (5, 2)


def test_what_came_before_a_failure_stays(export, tmp_path):
    """Of several results, those that were whole are kept; the error tells of the one that was not."""
    with pytest.raises(ResultUnavailable, match="the result 'b' cannot be fetched"):
        export(b"1", 404, 200, results=named("a", "b"), into=tmp_path)

    assert whole(tmp_path) == {"a": b"1"}


# ---- surfaces


def test_a_surface_sees_the_statuses_it_accepts(export, server):
    """A 400 that means "not yet" is polled for; one that means something else is told by its own word."""

    @accepts(400)
    def surface(reply, result):
        if reply.status_code == 400:
            word = reply.json()["type"]
            return Pending("done") if word == "not-ready" else Gone(word)
        return Content()

    assert export(Reply(400, {"type": "not-ready"}), 200, CSV, surface=surface).content == CSV.content
    with pytest.raises(ResultUnavailable, match="the server says purged"):
        export(Reply(400, {"type": "purged"}), surface=surface)


@pytest.mark.parametrize("nonsense", [None, b"rows", Succeeded("done"), Content], ids=repr)
def test_a_surface_that_returns_nonsense_is_told_what_is_expected(export, nonsense):
    """The message names the operation, what came and what may come."""
    with pytest.raises(SurfaceError, match=r"returned \w+, expected one of Content, Pending.*operation=export"):
        export(CSV, surface=lambda reply, result: nonsense)


def test_a_surface_that_cannot_read_the_body_is_told(export):
    """A page that is no JSON where JSON was expected is not written anywhere."""
    with pytest.raises(SurfaceError, match="made no sense of HTTP 200: not_json"):
        export(CSV, surface=lambda reply, result: Content(items=reply.json()["rows"]))


def test_a_transient_verdict_is_tried_again(export, clock):
    """A surface may say that this was no result yet, and when to ask again."""
    verdicts = iter([Transient("replicating", after=9), Content()])

    assert export(CSV, CSV, surface=lambda reply, result: next(verdicts)).content == CSV.content
    assert clock.sleeps == [1, 9]


def test_a_surface_that_looked_at_the_body_leaves_it_whole(export):
    """What it read is written all the same."""
    assert export(CSV, surface=lambda reply, result: Content() if reply.text else Gone("empty")).content == CSV.content


def test_a_partial_job_is_downloaded_like_another(server, clock):
    """What a job with failed items left is fetched from the error's `ready`, or with allow_partial."""
    server.script(accepted(), 200, CSV)
    provider = replace(generic.ACCEPTED, poll=lambda reply, job: Partial("mixed", results=(Result("/f"),)))

    with operation("export", deadline=60, clock=clock, provider=provider) as op:
        assert op.run("POST", f"{server.url}jobs", allow_partial=True).content == CSV.content


def test_the_monitor_may_fail_while_a_link_is_renewed(link_export):
    """A poll error is cured by the next poll; a refusal ends it as what it is."""
    assert link_export(["/1", "/2"], 403, 503, 200, CSV).content == CSV.content
    with pytest.raises(StatusUnavailable, match="HTTP 401"):
        link_export(["/1", "/2"], 403, 401)


def test_the_callers_session_is_used(server, clock):
    """Headers of the session go to the API's own origin with the result, too."""
    server.script(accepted(), done(result_url="/files/1"), CSV)
    with requests.Session() as session:
        session.headers["X-Tenant"] = "acme"
        with operation("export", deadline=60, clock=clock, session=session) as op:
            op.run("POST", f"{server.url}jobs")

    assert [call.headers["X-Tenant"] for call in server.calls] == ["acme"] * 3


def test_progress_of_a_download_is_told(export, server, clock):
    """Bytes done and the total that was announced, at the end at the latest."""
    events = []
    server.script(accepted(), running(), done(result_url="/files/1"), CSV)
    with operation("export", deadline=60, clock=clock, on_event=events.append) as op:
        op.run("POST", f"{server.url}jobs")

    told = [event for event in events if event.kind == "downloading"]
    assert [(event.bytes_done, event.bytes_total, event.hop) for event in told] == [(12, 12, "download")]


def test_no_size_is_told_twice(export, server, clock):
    """A size that was told while the last piece came is not told again at the end."""
    events = []

    def drip(connection, call):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n")
        clock.advance(10)
        connection.sendall(CSV.content)

    server.script(accepted(), done(result_url="/files/1"), drip)
    with operation("export", deadline=60, clock=clock, on_event=events.append) as op:
        op.run("POST", f"{server.url}jobs")

    assert [(event.bytes_done, event.elapsed) for event in events if event.kind == "downloading"] == [(12, 11.0)]
