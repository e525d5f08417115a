"""The three tables: each figure, and where it is from."""

from __future__ import annotations

from simulate.loads import Load
from simulate.reckon import ENGINE, FLEET, WORKER, Scale, carries, demand, mean_pause_s, polls
from simulate.setting import Setting
from simulate.units import Units

CAPS_S = (30.0, 300.0, 3600.0)


def show_units(units: Units, seconds: float) -> None:
    """What one of each takes."""
    _head(f"MEASURED here, in {seconds:.0f} s: {units.kind}, {units.rows:,} operations after {units.polls} polls each")
    _line("record, JSON", f"{units.record_bytes:,} B", "length of the text that is stored")
    _line("row in the table", f"{units.row_bytes:,.0f} B", "size of the table / rows, right after the fill")
    for name, size_bytes in units.index_bytes.items():
        _line(f"index {name.removeprefix('trihop_operations_')}", f"{size_bytes:,.0f} B", "size of the index / rows")
    for limit, cost in units.claims.items():
        what = f"{limit / cost.wall_s:,.0f} a second" + _more(cost.server_s, cost.wal_bytes, limit, units)
        _line(f"claims, {limit} at a time", what, "one client, SQLStore.claim_due")
    for name, cost in (("saves", units.save), ("reads by key", units.get)):
        what = f"{1 / cost.wall_s:,.0f} a second" + _more(cost.server_s, cost.wal_bytes, 1, units)
        _line(name, what, "one client, SQLStore")
    if units.on_server:
        _line(
            "log of a claim after a checkpoint",
            f"{units.cold_claim.wal_bytes / 50:,.0f} B a row",
            "CHECKPOINT, 50 a time",
        )
        _line(
            "log of a save after a checkpoint", f"{units.cold_save.wal_bytes:,.0f} B", "CHECKPOINT, then each row once"
        )
    if units.hot_share is not None:
        _line("updates that no index hears of", f"{units.hot_share:.0%}", "n_tup_hot_upd / n_tup_upd of the run")
    _line("CPU of a fleet's poll", f"{units.poll_cpu_s * 1e6:,.0f} us", "tests.bench.fleet, saturated, without a store")
    _line("CPU of a save, for the client", f"{units.save_cpu_s * 1e6:,.0f} us", "process CPU of the saves above")
    _line(
        "CPU of a worker's step, one poll", f"{units.step_cpu_s * 1e6:,.0f} us", "Worker.step over this store, loopback"
    )


def show_load(setting: Setting, found: Load) -> None:
    """What a simulation came to."""
    many = f"{setting.jobs:,} jobs, {setting.processes} processes of {setting.workers} threads"
    _head(f"SIMULATED, {setting.way}: {many}, {setting.deaths:.0%} of them die; busiest 30 s")
    _line("polls a second, offered", f"{found.offered_per_s:,.0f}", "came due, by _pacing's pauses")
    _line("polls a second, served", f"{found.served_per_s:,.0f}", "began")
    _line("late, 50 and 99 of 100", _pair(found.late_s), "begun - due, all but the next line's")
    _line("the same where an origin asked to wait", _pair(found.held_late_s), "Taken.held of Schedule")
    _line(
        "claims a second; found by one", f"{found.claims_per_s:,.0f}; {found.found:.1f}", "claim_due, rows / statements"
    )
    _line("share of the claim rate", f"{found.claim_share:.1%} used", "if the database did nothing but such claims")
    for name, share in sorted(found.used.items(), key=lambda one: -one[1]):
        _line(name, f"{share:.1%} used", f"{setting.costs.lanes} at a time" if name == "the database" else "")
    _line("saturates first", found.first, "the largest of these")
    _line("answers 429, of polls", f"{found.slowed:,} of {found.polls:,}", "")
    _line("threads of a process at one origin", f"{found.most_at_once} at the most", "")
    _line("polls repeated after a death", f"{found.repeated:,}", "")
    _line("what must not be", ", ".join(f"{name}: {n}" for name, n in found.broken.items()) or "none", "")
    _line("all had ended after", f"{found.ended_s:,.0f} s", "virtual")


def show_reckoned(units: Units, scale: Scale) -> None:
    """What ten million would take."""
    _head(f"RECKONED from the measured: {scale.jobs:,} jobs in flight, {scale.workers:,} workers")
    print(f"  taken as given: answers take {scale.latency_s:g} s, {scale.threads} threads a process, a core for each")
    if units.on_server:
        log = f"{scale.wal_per_s / 1e6:,.0f} MB/s of log, {scale.vacuum_pages_per_s:,.0f} pages/s of vacuum"
        print(f"  and of the database: {scale.cores} cores, {scale.connections} connections, {log}")
    gb = scale.jobs / 1e9
    _line("table", f"{units.row_bytes * gb:,.1f} GB", f"{units.row_bytes:,.0f} B x {scale.jobs:,}")
    for name, size_bytes in units.index_bytes.items():
        short = name.removeprefix("trihop_operations_")
        _line(f"index {short}", f"{size_bytes * gb:,.2f} GB", f"{size_bytes:,.0f} B x {scale.jobs:,}, none of it bloat")
    rates = {limit: limit / cost.wall_s for limit, cost in units.claims.items()}
    for hinted in (False, True):
        for cap_s in CAPS_S:
            pause_s = mean_pause_s(cap_s, hinted=hinted)
            what = f"the server asks for {cap_s:g} s" if hinted else f"our own pacing, cap {cap_s:g} s"
            print(f"\n  {what}: a pause of {pause_s:,.1f} s in the mean (next_pause, drawn)")
            for way in (FLEET, WORKER, ENGINE):
                found = demand(units, scale, way, pause_s)
                figures = (
                    f"{found.database_cores:,.1f} database cores",
                    f"log {found.wal_per_s / 1e6:,.0f} to {found.cold_wal_per_s / 1e6:,.0f} MB/s",
                    f"{found.dead_per_s:,.0f} dead rows/s, a vacuum each {found.vacuum_every_s:,.0f} s",
                    f"{found.threads:,.0f} threads",
                    f"{found.process_cores:,.0f} cores that ask",
                )
                rate = f"{found.polls_per_s:,.0f} polls/s"
                if way != FLEET:
                    at_once = 1 if way == WORKER else max(rates)
                    rate += (
                        f" = {found.polls_per_s / rates[at_once]:,.1f} x what one client claims, {at_once} at a time"
                    )
                print(f"    {way:<7} {rate}")
                print(f"            {'; '.join(figures)}")
                print("            breaks: " + ", ".join(f"{name} {share:,.2g}x" for name, share in found.used.items()))
    print("\n  polls a second that each carries, by way; what breaks first comes first:")
    for way in (FLEET, WORKER, ENGINE):
        told = ", ".join(f"{name} {rate:,.0f}" for name, rate in carries(units, scale, way).items())
        print(f"    {way:<7} {told}")
    print("\n  a poll, by way:")
    for way, poll in polls(units).items():
        cost = f"{poll.database_s * 1e3:.2f} ms of the database's CPU, {poll.updates} rows written"
        log = f"{poll.wal_bytes:,.0f} to {poll.cold_wal_bytes:,.0f} B of log"
        print(f"    {way:<7} {cost}, {log}, {poll.cpu_s * 1e3:.2f} ms of the asking process's CPU")


def _more(server_s: float, wal_bytes: float, rows: int, units: Units) -> str:
    if not units.on_server:
        return ""
    return f"; each {server_s / rows * 1e6:,.0f} us of its CPU, {wal_bytes / rows:,.0f} B of log"


def _head(title: str) -> None:
    print(f"\n{title}")


def _line(title: str, value: str, source: str) -> None:
    print(f"  {title:<40} {value:<64} {source}".rstrip())


def _pair(late_s: tuple[float, float]) -> str:
    return f"{late_s[0] * 1e3:,.1f} ms, {late_s[1] * 1e3:,.1f} ms"
