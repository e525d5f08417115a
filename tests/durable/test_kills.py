"""Real processes, really killed: one submit, one trace, the same bytes."""

import pytest

from durable.kills import RESULT, run_both, run_pair, serving
from durable.victim import TAKEN


@pytest.mark.parametrize("die", ["server:made", "save:2:before", "server:file"])
def test_a_killed_process_is_gone_on_from(tmp_path, die):
    """In whatever instant: the server has one job, the trace one root with the first start, and no orphans."""
    with serving() as jobs:
        pair = run_pair(jobs, tmp_path, "nightly", die)

    assert (pair.killed, pair.terminal, pair.code, pair.said) == (True, False, 0, "go\n")
    assert (pair.made, pair.result) == (1, RESULT)
    [root] = pair.roots
    assert (root["name"], root["start_ns"], pair.orphans) == ("export", pair.record["started_ns"], [])
    assert len({span["trace_id"] for span in pair.spans}) == 1
    names = [span["name"] for span in pair.spans]
    assert all(names.count(name) == 1 for name in ("export", "poll export", "download export"))


def test_a_process_killed_after_its_ending_is_not_ended_twice(tmp_path):
    """At most one root, and nothing is fetched again."""
    with serving() as jobs:
        pair = run_pair(jobs, tmp_path, "nightly", "end")

    assert (pair.killed, pair.terminal, pair.code, pair.made, pair.result) == (True, True, 0, 1, RESULT)
    assert [root["name"] for root in pair.roots] == ["export"]
    assert {span["name"] for span in pair.spans[len(pair.first) :]} == set()


def test_without_keys_at_the_server_no_second_job_is_risked(tmp_path):
    """Killed in mid-submit, the second process says what to look for."""
    with serving(honours_keys=False) as jobs:
        pair = run_pair(jobs, tmp_path, "nightly", "server:made", keyed=False)

    assert (pair.code, pair.made) == (3, 1)
    assert "an earlier process stopped while it submitted" in pair.said


def test_the_first_processs_sampling_decision_counts(tmp_path):
    """A second process that samples nothing ends a sampled trace all the same."""
    with serving() as jobs:
        pair = run_pair(jobs, tmp_path, "nightly", "server:poll:3", sampler="off")

    assert ([root["name"] for root in pair.roots], pair.orphans) == (["export"], [])


def test_a_foreign_tracer_goes_on_in_the_same_trace(tmp_path):
    """Nobody can choose ids for it: what it makes hangs below the root that was lost, and no second root is made."""
    with serving() as jobs:
        pair = run_pair(jobs, tmp_path, "nightly", "server:poll:3", sampler="foreign")

    assert (pair.code, pair.roots) == (0, [])
    assert len({span["trace_id"] for span in pair.spans}) == 1


def test_two_processes_with_one_key_make_one_submit(tmp_path):
    """One works; the other is told who does, and leaves it alone."""
    with serving() as jobs:
        codes, said = run_both(jobs, tmp_path, "nightly")

    assert sorted(codes) == [0, TAKEN]
    assert any("the operation with the key 'nightly' is held by process" in text for text in said)
    assert (jobs.made["nightly"], (tmp_path / "nightly.bin").read_bytes()) == (1, RESULT)
