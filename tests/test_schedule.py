"""Whose turn it is: due times, limits per origin, requests to wait, fair turns."""

import math
import random

from trihop._schedule import ASK, DOWNLOAD, Schedule, spread

A, B, C = "https://a.example", "https://b.example", "https://c.example"


class Job:
    """What is planned."""

    def __init__(self, name=""):
        self.entry = 0
        self.name = name

    def __repr__(self):
        return self.name


def scheduled(*, workers=8, per_origin=4, downloads=2):
    return Schedule({ASK: workers, DOWNLOAD: downloads}, per_origin=per_origin)


def planned(schedule, *names, origin=A, due_s=0.0, **more):
    jobs = [Job(name) for name in names]
    for job in jobs:
        schedule.plan(job, due_s=due_s, origin=origin, **more)
    return jobs


def names(schedule, now_s, lane=ASK):
    """All that may be taken now, left under way."""
    found = []
    while (taken := schedule.take(now_s, lane)) is not None:
        found.append(taken.item.name)
    return found


def test_nothing_is_taken_before_it_is_due():
    """What is next says when to look again."""
    schedule = scheduled()
    planned(schedule, "a", due_s=5.0)

    assert (schedule.take(4.9), schedule.next_s()) == (None, 5.0)
    assert schedule.take(5.0).due_s == 5.0
    assert (schedule.next_s(), schedule.planned(A)) == (math.inf, 0)


def test_the_longest_due_goes_first():
    """However the items were planned."""
    schedule = scheduled(per_origin=8)
    for due_s, name in ((3.0, "c"), (1.0, "a"), (2.0, "b")):
        planned(schedule, name, due_s=due_s)

    assert names(schedule, 10.0) == ["a", "b", "c"]


def test_an_origin_has_no_more_than_its_share_under_way():
    """The next one goes when one of them is done."""
    schedule = scheduled(per_origin=2)
    planned(schedule, "a", "b", "c")

    assert names(schedule, 0.0) == ["a", "b"]
    schedule.done(A)
    assert names(schedule, 0.0) == ["c"]


def test_origins_take_turns():
    """A long queue at one origin does not stand before the first item of another."""
    schedule = scheduled(workers=5)
    planned(schedule, "a1", "a2", "a3", origin=A)
    planned(schedule, "b1", origin=B, due_s=1.0)

    assert names(schedule, 2.0) == ["a1", "b1", "a2", "a3"]


def test_the_last_worker_is_kept_for_an_origin_that_has_none():
    """Two slow origins leave one to whoever comes next."""
    schedule = scheduled(workers=4)
    planned(schedule, "a1", "a2", "a3", origin=A)
    planned(schedule, "b1", "b2", "b3", origin=B)

    assert names(schedule, 0.0) == ["a1", "b1", "a2"]
    planned(schedule, "c1", "c2", origin=C)
    assert names(schedule, 0.0) == ["c1"]
    schedule.done(C)
    assert names(schedule, 0.0) == ["c2"]


def test_one_origin_alone_has_all_workers():
    """Nobody is kept for those who are not there; what was there once counts no more."""
    schedule = scheduled(workers=2)
    planned(schedule, "b", origin=B)
    assert names(schedule, 0.0) == ["b"]
    schedule.done(B)
    planned(schedule, "a1", "a2", "a3", origin=A)

    assert names(schedule, 0.0) == ["a1", "a2"]


def test_downloads_are_served_in_their_own_lane():
    """They neither wait for polls nor take the polls' workers."""
    schedule = scheduled(workers=1, downloads=1)
    planned(schedule, "poll")
    planned(schedule, "file", "more", lane=DOWNLOAD)

    assert (names(schedule, 0.0, DOWNLOAD), names(schedule, 0.0)) == (["file"], ["poll"])


def test_an_origin_that_asked_to_wait_is_left_alone_by_all_its_items():
    """Those of another origin go on."""
    schedule = scheduled()
    planned(schedule, "a", due_s=1.0)
    planned(schedule, "b", origin=B, due_s=1.0)
    schedule.hold(A, 0.0, 30.0)

    assert names(schedule, 2.0) == ["b"]
    assert schedule.next_s() == 30.0
    taken = schedule.take(30.0)
    assert (taken.item.name, taken.due_s, taken.held) == ("a", 1.0, True)


def test_a_shorter_request_to_wait_does_not_undo_a_longer_one():
    """The later instant counts."""
    schedule = scheduled()
    planned(schedule, "a")
    schedule.hold(A, 0.0, 30.0)
    schedule.hold(A, 1.0, 5.0)

    assert schedule.held_until_s(A) == 30.0
    assert schedule.held_until_s(B) == -math.inf


def test_what_waited_for_an_origin_comes_back_spread():
    """Ten items that came due in ten seconds of silence take ten seconds, not one."""
    schedule = scheduled(workers=20, per_origin=20)
    planned(schedule, *map(str, range(10)))
    schedule.hold(A, 0.0, 10.0)

    seen = []
    for tenth in range(300):
        while (taken := schedule.take(tenth / 10)) is not None:
            schedule.done(taken.origin)
            seen.append(tenth / 10)

    assert seen == [float(second) for second in range(10, 20)]


def test_a_ration_is_spread_over_its_time():
    """Three requests are left for six seconds, and there are more items than that."""
    schedule = scheduled()
    planned(schedule, *"abcdef")
    schedule.ration(A, 0.0, remaining=3, reset_s=6.0)

    assert [names(schedule, second) for second in (0.0, 1.0, 2.0, 4.0, 5.9)] == [["a"], [], ["b"], ["c"], []]


def test_a_ration_that_suffices_changes_nothing():
    """There is no reason to wait."""
    schedule = scheduled()
    planned(schedule, "a", "b")
    schedule.ration(A, 0.0, remaining=2, reset_s=60.0)

    assert names(schedule, 0.0) == ["a", "b"]


def test_no_request_left_is_a_request_to_wait():
    """Until the window ends."""
    schedule = scheduled()
    planned(schedule, "a")
    schedule.ration(A, 0.0, remaining=0, reset_s=7.0)

    assert (schedule.take(1.0), schedule.next_s()) == (None, 7.0)


def test_the_latest_plan_counts():
    """An item that is planned again, earlier or later, is not taken by its old plan."""
    schedule = scheduled()
    first, second = planned(schedule, "a", "b", due_s=5.0)
    schedule.plan(first, due_s=1.0, origin=A)
    schedule.plan(second, due_s=7.0, origin=A)

    assert names(schedule, 1.0) == ["a"]
    schedule.done(A)
    assert names(schedule, 6.0) == []
    assert names(schedule, 7.0) == ["b"]
    assert schedule.planned(A) == 0


def test_a_plan_that_was_changed_while_it_waited_counts_no_more():
    """Also where the item had come due already."""
    schedule = scheduled(per_origin=1)
    _, waiting = planned(schedule, "a", "b")
    assert names(schedule, 0.0) == ["a"]
    schedule.plan(waiting, due_s=9.0, origin=A)
    schedule.done(A)

    assert (names(schedule, 1.0), names(schedule, 9.0)) == ([], ["b"])


def test_what_cannot_have_its_turn_in_time_is_given_up():
    """At once, where the origin is not to be asked before; at its end, where the queue was too long."""
    schedule = scheduled(per_origin=1)
    planned(schedule, "busy")
    assert names(schedule, 0.0) == ["busy"]
    planned(schedule, "soon", until_s=5.0)
    planned(schedule, "later", until_s=50.0)
    planned(schedule, "never")
    schedule.take(0.0)

    assert schedule.hopeless(4.0) == []
    assert [job.name for job in schedule.hopeless(5.0)] == ["soon"]
    schedule.hold(A, 5.0, 60.0)
    assert [job.name for job in schedule.hopeless(5.0)] == ["later"]
    schedule.done(A)
    assert names(schedule, 65.0) == ["never"]


def test_two_thousand_items_that_started_together_do_not_ask_together():
    """Each pause is the server's ten seconds: after the first of them, no second has twice the mean."""
    draw = random.Random(7)
    schedule = scheduled(workers=8, per_origin=8)
    for _ in range(2000):
        first_s = spread(10.0, among=2000, room_s=None, random=draw)
        schedule.plan(Job(), due_s=first_s, origin=A)
    asked = []
    now_s = 0.0
    while now_s < 120:
        taken = schedule.take(now_s)
        if taken is None:
            now_s = schedule.next_s()
            continue
        asked.append(int(now_s))
        schedule.done(A)
        schedule.plan(taken.item, due_s=now_s + 10.0 + draw.random(), origin=A)

    counts = [asked.count(second) for second in range(20, 120)]
    assert max(counts) < 2 * sum(counts) / len(counts)


def test_one_job_alone_comes_back_when_it_was_told_to():
    """There is nobody to keep out of the way of; and never past the room that is left."""
    draw = random.Random(7)

    assert spread(10.0, among=1, room_s=None, random=draw) == 10.0
    assert all(10.0 <= spread(10.0, among=100, room_s=12.0, random=draw) <= 11.0 for _ in range(100))
    assert spread(10.0, among=100, room_s=8.0, random=draw) == 10.0
