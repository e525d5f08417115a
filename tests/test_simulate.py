"""The simulation of many jobs: what must never be is looked for, and each input has its say."""

from dataclasses import replace

import pytest

from simulate.reckon import ENGINE, FLEET, WORKER, Scale, carries, demand, looks_per_s, mean_pause_s
from simulate.run import simulate
from simulate.setting import FLEETS, WORKERS, Costs, Server, Setting
from simulate.tables import show_load, show_reckoned
from simulate.units import Cost, Units
from trihop import Pacing
from trihop._schedule import Schedule

COSTS = Costs(statement_s=5e-4, claim_s=5e-5, save_s=4e-4, read_s=1e-4, poll_cpu_s=5e-4, step_cpu_s=4e-3, lanes=4)
PLAIN = Server(name="plain", share=1.0)
STORM = Server(name="storm", share=0.5, storm_s=(15.0, 20.0), retry_after_s=10.0)
UNITS = Units(
    kind="PostgreSQL",
    rows=1_000,
    polls=20,
    record_bytes=4_500,
    row_bytes=3_000.0,
    index_bytes={"trihop_operations_claimable_at": 20.0},
    claims={
        1: Cost(2e-3, 6e-4, 700),
        8: Cost(4e-3, 1e-3, 4_600),
        50: Cost(1e-2, 3e-3, 28_000),
        200: Cost(4e-2, 9e-3, 110_000),
    },
    cold_claim=Cost(1e-2, 3e-3, 180_000),
    save=Cost(2e-3, 4e-4, 2_900),
    cold_save=Cost(2e-3, 4e-4, 12_000),
    get=Cost(5e-4, 1e-4, 10),
    hot_share=0.1,
    poll_cpu_s=4e-4,
    save_cpu_s=5e-4,
    step_cpu_s=4e-3,
)


def small(**changes):
    """A few jobs at a plain server and one that will not be asked for a while; half of those that ask die."""
    setting = Setting(
        costs=COSTS,
        jobs=400,
        processes=4,
        workers=4,
        per_origin=2,
        deaths=0.5,
        ramp_s=10.0,
        lasting_s=20.0,
        servers=(replace(PLAIN, share=0.5), STORM),
    )
    return replace(setting, **changes)


@pytest.mark.parametrize("way", [FLEETS, WORKERS])
def test_nothing_is_asked_twice_at_a_time_or_early_and_all_end(way):
    """Through refusals, errors and deaths."""
    found = simulate(small(way=way))

    assert found.broken == {}
    assert found.polls > 400
    assert found.slowed > 0
    assert found.repeated > 0


def test_a_fleet_keeps_the_limit_of_an_origin():
    """No more threads of a process are at one than it was told, and it uses them."""
    assert simulate(small(jobs=2_000, per_origin=2)).most_at_once == 2
    assert simulate(small(jobs=2_000, per_origin=3)).most_at_once == 3


def test_a_fleet_leaves_an_origin_alone_and_workers_do_not_know_of_each_other():
    """One refusal holds all jobs of a process there; workers hear one for each job that asks."""
    assert simulate(small(way=FLEETS)).slowed < simulate(small(way=WORKERS)).slowed / 2


def test_a_schedule_that_does_not_hold_an_origin_is_found_out(monkeypatch):
    """What must not be is noted when it is."""
    monkeypatch.setattr(Schedule, "hold", lambda *_: None)

    assert set(simulate(small()).broken) == {"asked an origin that is to be left alone"}


def test_a_job_that_never_ends_is_found_out():
    """Where every answer is an error, none of them ends, and it says how many that were."""
    found = simulate(
        small(jobs=3, deaths=0.0, servers=(replace(PLAIN, failing=1.0),), pacing=Pacing(first=9e5, cap=9e5))
    )

    assert found.broken == {"jobs without an end": 3}


def test_what_a_death_took_is_claimed_once_its_lease_has_passed():
    """A longer lease, a later end."""
    dying = small(deaths=1.0, lasting_s=5.0, servers=(PLAIN,))

    assert simulate(replace(dying, lease_s=300.0)).ended_s > simulate(replace(dying, lease_s=30.0)).ended_s + 100


@pytest.mark.parametrize("way", [FLEETS, WORKERS])
@pytest.mark.parametrize(
    ("changes", "first"),
    [
        ({"costs": replace(COSTS, save_s=0.1, lanes=1)}, "the database"),
        ({"servers": (replace(PLAIN, latency_s=1.0),)}, "the workers' threads"),
        ({"servers": (replace(PLAIN, limit_per_s=2, retry_after_s=5.0),)}, "the limit of plain"),
        (
            {"costs": replace(COSTS, poll_cpu_s=0.1, step_cpu_s=0.1), "workers": 40, "per_origin": 40},
            "the processes' CPU",
        ),
    ],
)
def test_what_saturates_first_is_what_was_made_scarce(way, changes, first):
    """A slow database, a slow server, a low limit, dear polls."""
    assert simulate(small(way=way, deaths=0.0, **changes)).first == first


def test_larger_claims_take_less_of_the_claim_rate():
    """One statement finds more of what is due."""
    busy = small(way=WORKERS, jobs=2_000, processes=2, workers=8, deaths=0.0)
    one, eight = simulate(replace(busy, claim_batch=1)), simulate(replace(busy, claim_batch=8))

    assert one.found <= 1 < eight.found
    assert eight.claim_share / eight.claims_per_s < one.claim_share / one.claims_per_s


def test_too_few_workers_serve_late():
    """The offered polls are the same jobs', and what is served falls behind."""
    many, few = (simulate(small(jobs=2_000, deaths=0.0, processes=number, servers=(PLAIN,))) for number in (8, 1))

    assert few.late_s[1] > 10 * many.late_s[1]
    assert few.served_per_s < many.served_per_s


def test_the_same_seed_gives_the_same_figures():
    """And another one others."""
    assert simulate(small()) == simulate(small())
    assert simulate(small()) != simulate(small(seed=8))


def test_a_pause_is_what_the_library_makes_of_it():
    """Its own are drawn between the first and the cap; a hint is lengthened by a tenth at the most."""
    assert mean_pause_s(30.0, hinted=False) == pytest.approx(15.5, rel=0.02)
    assert mean_pause_s(30.0, hinted=True) == pytest.approx(31.5, rel=0.02)


@pytest.mark.parametrize("way", [FLEET, WORKER, ENGINE])
def test_what_is_reckoned_grows_with_the_jobs_and_shrinks_with_the_pause(way):
    """Twice the jobs or half the pause is twice the polls, and twice of all that they take."""
    once = demand(UNITS, Scale(jobs=1_000, latency_s=0.0), way, 4.0)
    twice = demand(UNITS, Scale(jobs=2_000, latency_s=0.0), way, 4.0)
    often = demand(UNITS, Scale(jobs=1_000, latency_s=0.0), way, 2.0)

    for name in ("polls_per_s", "database_cores", "wal_per_s", "dead_per_s", "threads", "process_cores"):
        assert getattr(twice, name) == getattr(often, name) == pytest.approx(2 * getattr(once, name))


def test_a_fleet_looks_for_webhooks_in_longer_pauses():
    """Each five seconds where it has few jobs, and less often the more it has: a hundred times a second at the most."""
    assert looks_per_s(Scale(jobs=1_000), 4.0) == 0
    assert looks_per_s(Scale(jobs=1_000), 60.0) == pytest.approx(1_000 / 60 * 11)
    assert looks_per_s(Scale(workers=8, jobs=100_000), 36_000.0) == pytest.approx(100, rel=0.1)
    assert simulate(small()).looks_per_s > 0
    assert simulate(small(pacing=Pacing(cap=4.9), servers=(PLAIN,))).looks_per_s == 0


def test_an_engine_costs_the_database_more_than_a_worker_and_a_worker_more_than_a_fleet():
    """Three rows written anew, two, and one."""
    costs = [demand(UNITS, Scale(), way, 300.0).database_cores for way in (FLEET, WORKER, ENGINE)]

    assert costs == sorted(costs)


def test_what_breaks_first_is_what_there_is_least_of():
    """With more connections another one is first."""
    few, many = (demand(UNITS, Scale(connections=number), WORKER, 3600.0) for number in (10, 100_000))

    assert next(iter(few.used)) == "connections"
    assert next(iter(many.used)) != "connections"


def test_an_engine_carries_what_its_dispatcher_offers():
    """Ten thousand at each look, so that ten looks a second carry ten times as many polls."""
    assert carries(UNITS, Scale(), ENGINE)["offers of one dispatcher"] == pytest.approx(10_000)
    assert carries(UNITS, Scale(offers_every_s=0.1), ENGINE)["offers of one dispatcher"] == pytest.approx(100_000)
    assert "connections" not in carries(UNITS, Scale(), ENGINE)


def test_the_tables_change_with_their_inputs(capsys):
    """Each figure that is printed is worked out."""
    printed = []
    for jobs in (100, 200):
        setting = small(jobs=jobs)
        show_load(setting, simulate(setting))
        show_reckoned(UNITS, Scale(jobs=jobs * 10_000))
        printed.append(capsys.readouterr().out.splitlines())

    same = [line for line, other in zip(*printed, strict=True) if line == other and any(map(str.isdigit, line))]
    assert len(same) < len(printed[0]) / 2
