"""Going on by range, at servers that answer otherwise than they should."""

from __future__ import annotations

from field.jobs import state, submitted
from trihop import Reply
from trihop.testing import ranged, reset

V1 = b"".join(b"%05d\n" % n for n in range(2_000))
V2 = V1.replace(b"0", b"o")


def version(content, etag):
    return Reply(200, content=content, headers={"ETag": etag})


def test_rng_01_200_appended(server, fetch, tmp_path):
    """A server that ignores the range sends all of it, and all of it is what is written.

    https://github.com/huggingface/huggingface_hub/pull/3778
    """
    whole = version(V1, '"v1"')
    server.script(submitted(), state("done", results="/file"), reset(whole, 5_000), whole)

    assert fetch(to=tmp_path / "file").path.read_bytes() == V1
    asked = server.calls[-1].headers
    assert (asked["Range"], asked["Accept-Encoding"]) == ("bytes=5000-", "identity")


def test_rng_03_earlier_start(server, fetch, tmp_path):
    """A part that begins at a block before the byte that was asked for is not written twice.

    https://github.com/xroche/httrack/pull/428
    """
    size = len(V1)
    blocks = Reply(206, content=V1[512:], headers={"ETag": '"v1"', "Content-Range": f"bytes 512-{size - 1}/{size}"})
    server.script(submitted(), state("done", results="/file"), reset(version(V1, '"v1"'), 1_000), blocks)

    file = fetch(to=tmp_path / "file")

    assert (file.path.read_bytes(), file.resumes) == (V1, 1)


def test_rng_05_if_range_lost_on_retry(server, fetch, tmp_path):
    """The validator goes with each further range, and a part of another version is never spliced on.

    https://github.com/huggingface/huggingface_hub/pull/4143
    """
    first, second = version(V1, '"v1"'), version(V2, '"v2"')
    ignorant = Reply(
        206, content=V2[2_000:], headers={"ETag": '"v2"', "Content-Range": f"bytes 2000-{len(V2) - 1}/{len(V2)}"}
    )
    server.script(submitted(), state("done", results="/file"))
    server.script(reset(first, 1_000), lambda call: reset(ranged(first)(call), 1_000), ignorant, second)

    assert fetch(to=tmp_path / "file").path.read_bytes() == V2
    assert [call.headers.get("If-Range") for call in server.calls[2:]] == [None, '"v1"', '"v1"', None]
