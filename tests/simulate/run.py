"""One simulation, from its setting to what it came to."""

from __future__ import annotations

from collections.abc import Callable

from simulate import fleets, workers
from simulate.loads import Load, load
from simulate.setting import FLEETS, WORKERS, Setting
from simulate.world import World

WAYS: dict[str, Callable[[World], None]] = {FLEETS: fleets.enact, WORKERS: workers.enact}


def simulate(setting: Setting) -> Load:
    """Let it happen, and look at it."""
    world = World(setting)
    WAYS[setting.way](world)
    return load(setting, world.run(), world.database.busy_s)
