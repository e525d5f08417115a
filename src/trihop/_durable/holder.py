"""Who holds an operation: one process in one visit, and whether it is still alive where that can be seen from here."""

from __future__ import annotations

import os
import platform
import uuid
from functools import lru_cache


def new_holder() -> str:
    """A name for one visit of this process: host, process, when that began, where its numbers count, and a nonce."""
    return f"{_process(os.getpid())}/{uuid.uuid4().hex[:8]}"


@lru_cache(maxsize=1)
def _process(pid: int) -> str:
    return f"{platform.node() or 'host'}/{pid}/{_began(pid)}/{_space()}"


def told(holder: str) -> str:
    """A holder for messages.

    >>> told("web-1/4711/88/ab/cd")
    'process 4711 on web-1'
    """
    parts = holder.rsplit("/", 4)
    return f"process {parts[1]} on {parts[0]}" if len(parts) == 5 else holder


def surely_dead(holder: str) -> bool:
    """Whether that process ran on this machine, in a space of process numbers that we see, and is no more.

    Where it cannot be told, the answer is no, and the lease has to run out.
    """
    parts = holder.rsplit("/", 4)
    if len(parts) != 5 or parts[0] != (platform.node() or "host") or not parts[1].isdigit():
        return False
    _, pid, began, space, _ = parts
    return bool(began and space and space == _space()) and _began(int(pid)) != began


@lru_cache(maxsize=1)
def _space() -> str:
    """This boot and this namespace of process numbers; empty where the system does not tell."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read(8)}-{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""


def _began(pid: int) -> str:
    """When a process began, in ticks since the boot; empty where there is none, or it is a zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]
