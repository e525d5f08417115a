"""Starts the processes of an application, kills them at random, and starts them again."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_TESTS = Path(__file__).resolve().parents[2]
_PAUSE = threading.Event()


@dataclass
class Process:
    """A process of the application, with what it forked; restarted when it has died."""

    command: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    starts: int = 0
    running: subprocess.Popen[bytes] | None = None

    def keep_up(self) -> None:
        """Start it, if it is not running."""
        if self.running is not None and self.running.poll() is None:
            return
        with self.log.open("ab") as log:
            self.running = subprocess.Popen(
                [sys.executable, *self.command],
                cwd=_TESTS,
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # its forks die with it
            )
        self.starts += 1

    def signal(self, number: int) -> None:
        """To it and its forks."""
        if self.running is not None and self.running.poll() is None:
            os.killpg(self.running.pid, number)

    def end(self) -> None:
        """It ends, and so do its forks."""
        self.signal(signal.SIGKILL)
        if self.running is not None:
            self.running.wait(20)


@dataclass
class Hands:
    """All processes of the application.

    Args:
        processes: Them.
        seed: Of what happens at random.
        before: Called while a process stands still that is about to be killed.
    """

    processes: list[Process]
    seed: int
    before: Callable[[], None]
    killed: int = 0
    _over: threading.Event = field(default_factory=threading.Event)

    def kill(self, process: Process) -> None:
        """Stop it where it is, look around, and kill it."""
        process.signal(signal.SIGSTOP)
        self.before()
        process.end()
        process.keep_up()
        self.killed += 1

    def kill_at_random(self, times: int, *, every_s: tuple[float, float]) -> None:
        """One of them, every so many seconds; those that were killed by others are started again meanwhile."""
        chance = random.Random(self.seed)
        for _ in range(times):
            self.keep_up(chance.uniform(*every_s))
            self.kill(chance.choice(self.processes))

    def keep_up(self, for_s: float) -> None:
        """See to it that all are running."""
        for _ in range(max(1, round(for_s / 0.1))):
            for process in self.processes:
                process.keep_up()
            _PAUSE.wait(0.1)


@contextmanager
def working(
    commands: Mapping[str, tuple[Sequence[str], float]],
    given: Mapping[str, Any],
    *,
    seed: int,
    before: Callable[[], None],
) -> Iterator[Hands]:
    """The application's processes, by name: a command for Python, and by how much its clock is wrong."""
    processes = [
        Process(
            command,
            {"TRIHOP_CROWD": json.dumps(given), "TRIHOP_CLOCK_OFF": str(off_s)},
            Path(given["folder"]) / f"{name}.log",
        )
        for name, (command, off_s) in commands.items()
    ]
    hands = Hands(processes, seed, before)
    try:
        hands.keep_up(0)
        yield hands
    finally:
        for process in processes:
            process.end()
