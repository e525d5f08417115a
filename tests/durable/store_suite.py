"""What every store does, whatever it is made of. A kind of store passes it by giving it a `shelf`."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest

from durable.shelves import Shelf
from trihop.stores import OFFERED, Claim, Fenced, Store, Stored, StoredRecord, Taken

T = TypeVar("T")

# PostgreSQL's clock goes on while a test runs.
SOON_S = 20.0


def record(name: str = "export", **fields: Any) -> StoredRecord:
    """A record of an operation, with what a store reads in it."""
    return {"version": 1, "name": name, "job_id": None, "deadline_at": None, **fields}


def at_once(count: int, do: Callable[[int], T]) -> list[T]:
    """What came of it in that many threads, started together."""
    ready = threading.Barrier(count)

    def run(number: int) -> T:
        ready.wait(30)
        return do(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def about(seconds: float) -> Any:
    return pytest.approx(seconds, abs=SOON_S)


class StoreSuite:
    """The contract of `Store`."""

    @pytest.fixture
    def shelf(self, tmp_path: Any) -> Iterator[Shelf]:
        raise NotImplementedError

    @pytest.fixture
    def store(self, shelf: Shelf) -> Store:
        return shelf.open()

    def test_it_is_a_store(self, store: Store) -> None:
        """All that the protocol asks for is there."""
        assert isinstance(store, Store)

    # ---- claims

    def test_what_is_begun_is_there_for_others(self, store: Store, shelf: Shelf) -> None:
        """The record is written when `begin` returns."""
        claim = store.begin(record(), key="nightly", holder="one", lease_s=60)
        stored = shelf.open().get("nightly")

        assert claim == Claim("nightly", claim.token, record(), fresh=True)
        assert stored == Stored("nightly", record(), False, about(0), "one", about(60), claim.token, about(0))

    def test_a_key_that_somebody_holds_is_refused(self, store: Store, shelf: Shelf) -> None:
        """The second is told by whom and for how long, whichever way it asks, and changes nothing."""
        claim = store.begin(record(), key="nightly", holder="one", lease_s=60)
        before, other = store.get("nightly"), shelf.open()
        for ask in (
            lambda: other.begin(record("other"), key="nightly", holder="two", lease_s=60),
            lambda: other.claim("nightly", holder="two", lease_s=60),
            lambda: other.forget("nightly"),
        ):
            with pytest.raises(Taken) as caught:
                ask()
            assert (caught.value.holder, caught.value.expires_in_s) == ("one", about(60))

        assert other.claim_due(holder="two", lease_s=60, limit=10) == []
        assert before is not None
        assert (before.record, before.token) == (record(), claim.token)
        assert other.get("nightly").token == claim.token  # type: ignore[union-attr]

    def test_a_key_given_back_is_claimed_with_what_was_saved(self, store: Store, shelf: Shelf) -> None:
        """Neither fresh nor expired; the token has grown; the record offered is not taken."""
        first = store.begin(record(), key="nightly", holder="one", lease_s=60)
        store.save(first, record(polls=3), release=True)
        second = shelf.open().begin(record(polls=0), key="nightly", holder="two", lease_s=60)

        assert second == Claim("nightly", second.token, record(polls=3))
        assert second.token > first.token

    def test_a_stalled_holder_is_fenced_off(self, store: Store, shelf: Shelf) -> None:
        """Its lease runs out, somebody else claims, and nothing that it does from then on has any effect."""
        stalled = store.begin(record(), key="nightly", holder="one", lease_s=60)
        shelf.advance(100)
        other = shelf.open()
        claim = other.begin(record(), key="nightly", holder="two", lease_s=600)
        other.save(claim, record(polls=7))
        for act in (
            lambda: store.save(stalled, record(polls=1), ended=True, release=True, due_in_s=0),
            lambda: store.renew(stalled, lease_s=9999),
        ):
            with pytest.raises(Fenced):
                act()
        store.release(stalled)
        stored = other.get("nightly")

        assert claim == Claim("nightly", claim.token, record(), expired=True)
        assert claim.token > stalled.token
        assert stored is not None
        assert (stored.record, stored.holder, stored.lease_left_s) == (record(polls=7), "two", about(600))

    def test_a_late_holder_that_nobody_followed_goes_on(self, store: Store, shelf: Shelf) -> None:
        """A lease that ran out is lost only when somebody takes it."""
        claim = store.begin(record(), key="nightly", holder="one", lease_s=60)
        shelf.advance(100)
        store.save(claim, record(polls=1), lease_s=60)

        with pytest.raises(Taken):
            shelf.open().claim("nightly", holder="two", lease_s=60)

    def test_no_claim_without_a_record(self, store: Store) -> None:
        """A missing record is None, never a fresh one."""
        assert store.claim("nightly", holder="one", lease_s=60) is None
        assert store.get("nightly") is None
        assert store.list() == []

    def test_an_ended_operation_can_be_claimed_and_read(self, store: Store) -> None:
        """The claim says that it has ended; it may be saved, and opened again."""
        first = store.begin(record(), key="nightly", holder="one", lease_s=60)
        store.save(first, record(outcome="success"), ended=True, release=True)
        again = store.begin(record(), key="nightly", holder="two", lease_s=60)
        store.save(again, record(outcome="success", files=1), ended=True, release=True)
        third = store.claim("nightly", holder="three", lease_s=60)
        assert third is not None
        store.save(third, record(outcome=None), ended=False, due_in_s=0, release=True)
        (fourth,) = store.claim_due(holder="four", lease_s=60, limit=10)

        assert again == Claim("nightly", again.token, record(outcome="success"), ended=True)
        assert third == Claim("nightly", third.token, record(outcome="success", files=1), ended=True)
        assert fourth == Claim("nightly", fourth.token, record(outcome=None))

    def test_a_lease_is_extended_by_saving_and_by_renewing(self, store: Store, shelf: Shelf) -> None:
        """From now, not from where it would have ended; a save that does not say so leaves it."""
        claim = store.begin(record(), key="nightly", holder="one", lease_s=200)
        shelf.advance(100)
        store.save(claim, record())
        kept = store.get("nightly")
        store.save(claim, record(), lease_s=300)
        saved = store.get("nightly")
        store.renew(claim, lease_s=400)
        renewed = store.get("nightly")

        lefts = [stored.lease_left_s for stored in (kept, saved, renewed) if stored is not None]
        assert lefts == [about(100), about(300), about(400)]
        assert claim.record == record()

    def test_a_claim_given_back_is_free_at_once(self, store: Store, shelf: Shelf) -> None:
        """Nothing else is changed, and whoever comes next sees no crash."""
        claim = store.begin(record(), key="nightly", holder="one", lease_s=60)
        store.release(claim)
        (taken,) = shelf.open().claim_due(holder="two", lease_s=60, limit=10)

        assert taken == Claim("nightly", taken.token, record())

    def test_the_lease_of_a_dead_holder_can_be_ended(self, store: Store) -> None:
        """By whoever knows that it is dead, and only if it is still the holder."""
        store.begin(record(), key="nightly", holder="dead", lease_s=600)
        wrong = store.expire("nightly", holder="alive"), store.expire("unknown", holder="dead")
        right = store.expire("nightly", holder="dead")
        claim = store.claim("nightly", holder="two", lease_s=60)

        assert (wrong, right) == ((False, False), True)
        assert claim == Claim("nightly", claim.token if claim else 0, record(), expired=True)

    def test_a_claim_tells_when_it_was_made_and_what_was_due(self, store: Store, shelf: Shelf) -> None:
        """By the store's own clock; nothing is due of what has ended, or waits to be woken."""
        found = []
        for due_in_s, ended in ((100.0, False), (math.inf, False), (0.0, True)):
            claim = store.begin(record(), key="nightly", holder="one", lease_s=60)
            store.save(claim, record(), due_in_s=due_in_s, ended=ended, release=True)
            again = store.claim("nightly", holder="two", lease_s=60)
            assert again is not None
            assert again.at == about(shelf.now())
            found.append(again.due_in_s)
            store.release(again)

        assert found == [about(100), None, None]

    # ---- what is offered

    def test_what_is_offered_is_free_for_whoever_has_its_key(self, store: Store, shelf: Shelf) -> None:
        """Not for the next `claim_due`; the claim by key counts from then on, and nothing has expired."""
        first = store.begin(record(), key="nightly", holder="one", lease_s=60)
        store.save(first, record(), due_in_s=0, release=True)
        (offered,) = store.claim_due(holder=OFFERED, lease_s=600, limit=10)
        other = shelf.open()
        again = other.claim_due(holder="two", lease_s=60, limit=10)
        claim = other.claim("nightly", holder="two", lease_s=60)

        assert again == []
        assert claim == Claim("nightly", claim.token if claim else 0, record())
        with pytest.raises(Fenced):
            store.save(offered, record())
        with pytest.raises(Taken):
            store.claim("nightly", holder="three", lease_s=60)

    def test_what_is_offered_may_be_begun_and_forgotten(self, store: Store, shelf: Shelf) -> None:
        """As if nobody held it."""
        first = store.begin(record(), key="nightly", holder="one", lease_s=60)
        store.save(first, record(), due_in_s=0, release=True)
        store.claim_due(holder=OFFERED, lease_s=600, limit=10)
        again = store.begin(record(), key="nightly", holder="two", lease_s=60)
        store.release(again)
        store.claim_due(holder=OFFERED, lease_s=600, limit=10)

        assert not again.fresh
        assert store.forget("nightly")

    def test_what_is_offered_in_vain_is_due_again(self, store: Store, shelf: Shelf) -> None:
        """Once the lease has run out."""
        first = store.begin(record(), key="nightly", holder="one", lease_s=60)
        store.save(first, record(), due_in_s=0, release=True)
        store.claim_due(holder=OFFERED, lease_s=60, limit=10)
        shelf.advance(100)
        found = store.claim_due(holder=OFFERED, lease_s=60, limit=10)

        assert [claim.key for claim in found] == ["nightly"]

    # ---- the schedule

    def test_what_is_due_is_claimed_the_longest_overdue_first(self, store: Store, shelf: Shelf) -> None:
        """Up to the limit, and each once; what is due later, held or ended is not."""
        for key, due_in_s in (("late", 100.0), ("first", 200.0), ("later", 5000.0), ("second", 300.0)):
            claim = store.begin(record(key), key=key, holder="one", lease_s=60)
            store.save(claim, record(key), due_in_s=due_in_s, release=True)
        store.save(claim_of(store, "late"), record("late"), ended=True, due_in_s=100, release=True)
        store.begin(record(), key="held", holder="one", lease_s=4000)
        before = store.claim_due(holder="two", lease_s=60, limit=10)
        shelf.advance(1000)
        found = [store.claim_due(holder="two", lease_s=60, limit=1) for _ in range(3)]

        assert before == []
        assert [[claim.key for claim in claims] for claims in found] == [["first"], ["second"], []]

    def test_many_due_come_in_the_order_of_their_times(self, store: Store, shelf: Shelf) -> None:
        """Within one call as well."""
        for number in (3, 1, 4, 0, 2):
            claim = store.begin(record(), key=f"job {number}", holder="one", lease_s=60)
            store.save(claim, record(), due_in_s=50.0 * number + 50, release=True)
        shelf.advance(1000)

        keys = [claim.key for claim in store.claim_due(holder="two", lease_s=60, limit=4)]
        assert keys == ["job 0", "job 1", "job 2", "job 3"]

    def test_the_operation_of_a_dead_holder_is_due_when_its_lease_ends(self, store: Store, shelf: Shelf) -> None:
        """Begun and never saved again, or claimed as due and never saved: neither is lost."""
        store.begin(record(), key="nightly", holder="dead", lease_s=100)
        early = store.claim_due(holder="two", lease_s=100, limit=10)
        shelf.advance(200)
        (second,) = store.claim_due(holder="two", lease_s=100, limit=10)
        between = store.claim_due(holder="three", lease_s=100, limit=10)
        shelf.advance(200)
        (third,) = store.claim_due(holder="three", lease_s=100, limit=10)

        assert (early, between) == ([], [])
        assert (second.expired, third.expired) == (True, True)
        assert third.token > second.token

    @pytest.mark.parametrize("by", [{"key": "nightly"}, {"job_id": "b41f"}], ids=["key", "job id"])
    def test_a_wake_makes_the_next_step_due_now(self, store: Store, by: dict[str, str]) -> None:
        """Of an operation that is due later, or only when it is woken."""
        seen = []
        for due_in_s in (1000.0, math.inf):
            claim = store.begin(record(), key="nightly", holder="one", lease_s=60)
            store.save(claim, record(job_id="b41f"), due_in_s=due_in_s, release=True)
            stored = store.get("nightly")
            assert stored is not None
            due = store.claim_due(holder="two", lease_s=60, limit=10)
            woken = store.wake(**by)
            (claim,) = store.claim_due(holder="two", lease_s=60, limit=10)
            store.release(claim)
            seen.append((stored.due_in_s, due, woken))

        assert seen == [(about(1000), [], True), (None, [], True)]

    @pytest.mark.parametrize(
        "job_id",
        ["a\x00b", "\ud800", "\x1b[31m", "".join(map(chr, range(0x4E00, 0x7000)))],
        ids=["null", "surrogate", "escape", "long"],
    )
    def test_a_job_is_woken_by_its_id_whatever_the_server_made_it_of(self, store: Store, job_id: str) -> None:
        """Also where no database would have it in an index."""
        claim = store.begin(record(), key="nightly", holder="one", lease_s=60)
        store.save(claim, record(job_id=job_id), due_in_s=1000, release=True)

        assert (store.wake(job_id=job_id), store.wake(job_id=job_id + "x")) == (True, False)
        assert [claim.record["job_id"] for claim in store.claim_due(holder="two", lease_s=60, limit=10)] == [job_id]

    def test_nothing_wakes_what_is_not_open(self, store: Store) -> None:
        """Neither an unknown key or job, nor an operation that has ended."""
        claim = store.begin(record(job_id="b41f"), key="nightly", holder="one", lease_s=60)
        store.save(claim, record(job_id="b41f"), ended=True, release=True)

        found = [store.wake(key="nightly"), store.wake(job_id="b41f"), store.wake(key="other"), store.wake(job_id="?")]
        assert found == [False] * 4
        assert store.claim_due(holder="two", lease_s=60, limit=10) == []

    def test_a_wake_during_a_poll_is_not_lost(self, store: Store) -> None:
        """The answer under way may be older than the wake: the operation that is given back is due now."""
        first = store.begin(record(), key="nightly", holder="one", lease_s=60)
        store.wake(key="nightly")
        held = store.claim_due(holder="two", lease_s=60, limit=10)
        store.save(first, record(polls=1), due_in_s=1000, release=True)
        (second,) = store.claim_due(holder="two", lease_s=60, limit=10)
        store.save(second, record(polls=2), due_in_s=1000, release=True)
        after = store.claim_due(holder="three", lease_s=60, limit=10)

        assert (held, second.record, after) == ([], record(polls=1), [])

    def test_a_wake_that_was_answered_is_over(self, store: Store) -> None:
        """A holder that keeps its claim has polled since: what it says of the next step holds."""
        claim = store.begin(record(), key="nightly", holder="one", lease_s=60)
        store.wake(key="nightly")
        store.save(claim, record(polls=1), due_in_s=1000)
        store.save(claim, record(polls=1), due_in_s=1000, release=True)

        assert store.claim_due(holder="two", lease_s=60, limit=10) == []

    def test_a_wake_is_over_when_the_next_holder_comes(self, store: Store) -> None:
        """Whoever claims after it polls after it."""
        first = store.begin(record(), key="nightly", holder="one", lease_s=60)
        store.wake(key="nightly")
        store.release(first)
        (second,) = store.claim_due(holder="two", lease_s=60, limit=10)
        store.save(second, record(polls=1), due_in_s=1000, release=True)

        assert store.claim_due(holder="three", lease_s=60, limit=10) == []

    def test_a_wake_does_not_put_off_what_is_overdue(self, store: Store, shelf: Shelf) -> None:
        """It keeps its place in the line."""
        for key in ("woken", "other"):
            store.release(store.begin(record(), key=key, holder="one", lease_s=60))
            shelf.advance(100)
        store.wake(key="woken")

        keys = [claim.key for claim in store.claim_due(holder="two", lease_s=60, limit=10)]
        assert keys == ["woken", "other"]

    # ---- lists

    def test_the_list_begins_with_the_latest(self, store: Store, shelf: Shelf) -> None:
        """Open ones alone where that is asked for, and as many as asked for."""
        for key in ("a", "b", "c"):
            claim = store.begin(record(key), key=key, holder="one", lease_s=60)
            store.save(claim, record(key), ended=key == "b", release=True)
            shelf.advance(10)

        listed = [store.list(), store.list(open_only=True), store.list(limit=1), store.list(open_only=True, limit=1)]
        assert [[stored.key for stored in found] for found in listed] == [["c", "b", "a"], ["c", "a"], ["c"], ["c"]]
        assert [stored.record["name"] for stored in listed[0]] == ["c", "b", "a"]
        assert [stored.ended for stored in listed[0]] == [False, True, False]

    def test_overdue_counts_open_operations_past_their_deadline(self, store: Store, shelf: Shelf) -> None:
        """By name; held or not; an ending takes one out, and so does a later deadline."""
        deadline_at = shelf.now() + 100
        for number, name in enumerate(["export", "export", "report", "report", "report"]):
            store.begin(record(name, deadline_at=deadline_at), key=f"{number}", holder="one", lease_s=9999)
        store.begin(record("none"), key="none", holder="one", lease_s=60)
        before = store.overdue()
        shelf.advance(200)
        after = store.overdue()
        for key in ("1", "2", "3"):
            shelf_claim = store.expire(key, holder="one") and store.claim(key, holder="two", lease_s=60)
            assert shelf_claim
            ended = key != "3"
            later = record("report", deadline_at=shelf.now() + 1000)
            store.save(shelf_claim, shelf_claim.record if ended else later, ended=ended)

        assert (before, after) == ({}, {"export": 2, "report": 3})
        assert store.overdue() == {"export": 1, "report": 1}

    def test_what_is_forgotten_has_gone(self, store: Store, shelf: Shelf) -> None:
        """Its token never comes back: who held it then cannot touch what is begun under the key later."""
        old = store.begin(record(), key="nightly", holder="one", lease_s=60)
        store.release(old)
        told = [store.forget("nightly"), store.forget("nightly")]
        gone = store.get("nightly")
        with pytest.raises(Fenced):
            store.save(old, record())
        new = store.begin(record(polls=0), key="nightly", holder="two", lease_s=60)
        with pytest.raises(Fenced):
            store.save(old, record(polls=9))

        assert (told, gone) == ([True, False], None)
        assert new == Claim("nightly", new.token, record(polls=0), fresh=True)
        assert new.token > old.token
        assert shelf.open().get("nightly").record == record(polls=0)  # type: ignore[union-attr]

    # ---- records

    def test_records_come_back_as_they_went_in(self, store: Store, shelf: Shelf) -> None:
        """Any text, number and nesting, and large ones."""
        odd: dict[str, Any] = {
            "text": 'Zürich "😀" \\ \n \x00 \ud800',
            "numbers": [0, -1, 0.1, 1e300, 2**53 + 1],
            "nested": {"none": None, "yes": True, "no": False, "": [[], {}]},
            "large": "x" * 200_000,
        }
        key = "a/b?c=ü 'quoted\" 100%"
        claim = store.begin(record("größe", **odd), key=key, holder="ü", lease_s=60)
        stored = shelf.open().get(key)

        assert claim.record == record("größe", **odd)
        assert stored is not None
        assert (stored.key, stored.record, stored.holder) == (key, record("größe", **odd), "ü")

    def test_a_record_changed_by_its_owner_is_not_changed_in_the_store(self, store: Store) -> None:
        """What is kept is what was saved, and what is read is the reader's own."""
        mine: dict[str, Any] = record(once={"upload": 1})
        claim = store.begin(mine, key="nightly", holder="one", lease_s=60)
        mine["once"]["upload"] = 2
        claim.record["once"]["upload"] = 3  # type: ignore[index, call-overload]
        read = store.get("nightly")
        assert read is not None
        read.record["once"]["upload"] = 4  # type: ignore[index, call-overload]

        assert store.get("nightly").record == record(once={"upload": 1})  # type: ignore[union-attr]

    # ---- at once

    def test_of_many_that_begin_a_key_at_once_one_gets_it(self, shelf: Shelf) -> None:
        """The others are told by whom it is taken."""
        stores = [shelf.open() for _ in range(8)]
        stores[0].list()

        def begin(number: int) -> str:
            try:
                claim = stores[number].begin(record(), key="nightly", holder=f"{number}", lease_s=600)
            except Taken as taken:
                return taken.holder
            assert claim.fresh
            return "mine"

        found = at_once(8, begin)
        winner = str(found.index("mine"))
        assert sorted(found) == sorted(["mine", *[winner] * 7])

    def test_many_that_claim_at_once_share_what_is_due(self, shelf: Shelf) -> None:
        """Each operation is claimed by one of them."""
        stores = [shelf.open() for _ in range(4)]
        for number in range(60):
            stores[0].release(stores[0].begin(record(), key=f"{number}", holder="one", lease_s=60))

        def claim(number: int) -> list[str]:
            found: list[str] = []
            while claims := stores[number].claim_due(holder=f"{number}", lease_s=600, limit=4):
                found += [claim.key for claim in claims]
            return found

        keys = [key for found in at_once(4, claim) for key in found]
        assert sorted(keys) == sorted(f"{number}" for number in range(60))

    def test_many_threads_share_a_store(self, store: Store) -> None:
        """Each save is there when it has returned, whoever saves at the same time."""
        claims = [store.begin(record(), key=f"{number}", holder="one", lease_s=600) for number in range(8)]

        def save(number: int) -> list[Any]:
            seen = []
            for polls in range(20):
                store.save(claims[number], record(polls=polls))
                stored = store.get(f"{number}")
                seen.append(stored.record["polls"] if stored is not None else None)
            return seen

        assert at_once(8, save) == [list(range(20))] * 8


def claim_of(store: Store, key: str) -> Claim:
    """A claim on a record that nobody holds."""
    claim = store.claim(key, holder="one", lease_s=60)
    assert claim is not None
    return claim
