"""Measure, simulate, reckon; and print each figure with where it is from."""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from simulate.measured import measure
from simulate.reckon import Scale
from simulate.run import WAYS, simulate
from simulate.setting import Setting
from simulate.tables import show_load, show_reckoned, show_units
from trihop._clock import SystemClock


def main() -> None:
    """Print three tables."""
    given = _arguments()
    clock = SystemClock()
    began_s = clock.monotonic()
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        units = pool.submit(measure, given.database, rows=given.rows, polls=given.polls).result()
        measured_s = clock.monotonic() - began_s
        show_units(units, measured_s)
        lanes = given.cores if units.on_server else 1
        settings = [
            Setting(
                way=way,
                costs=units.costs(lanes),
                jobs=given.jobs,
                processes=max(1, given.workers // given.threads),
                workers=given.threads,
                claim_batch=given.batch,
                lease_s=given.lease,
                deaths=given.deaths,
                seed=given.seed,
            )
            for way in WAYS
        ]
        for setting, found in zip(settings, pool.map(simulate, settings), strict=True):
            show_load(setting, found)
    show_reckoned(units, Scale(threads=given.threads, cores=lanes))
    print(f"\nmeasured in {measured_s:.0f} s, all in {clock.monotonic() - began_s:.0f} s")


def _arguments() -> argparse.Namespace:
    told = argparse.ArgumentParser(prog="simulate", description="Many jobs, measured, simulated and reckoned.")
    here = any(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    told.add_argument("--database", choices=("sqlite", "postgresql"), default="postgresql" if here else "sqlite")
    told.add_argument("--rows", type=int, default=50_000, help="operations in the database that is measured")
    told.add_argument("--polls", type=int, default=20, help="how often each of these was asked")
    told.add_argument("--jobs", type=int, default=100_000, help="that are simulated, each of the two ways")
    told.add_argument("--workers", type=int, default=1_000, help="threads that ask, in the simulation")
    told.add_argument("--threads", type=int, default=8, help="of these in a process")
    told.add_argument("--cores", type=int, default=16, help="of the database, simulated and reckoned")
    told.add_argument("--batch", type=int, default=8, help="operations that are claimed at a time, at most")
    told.add_argument("--lease", type=float, default=60.0, help="seconds")
    told.add_argument("--deaths", type=float, default=0.05, help="share of those that ask that die")
    told.add_argument("--seed", type=int, default=7)
    return told.parse_args()


if __name__ == "__main__":
    main()
