"""1 GiB over loopback into a file, under a deadline, against curl: speed, CPU and memory, each in a process of its own.

`python -m tests.bench.download` prints the table. Pairs take turns; ratios are
medians over rounds. Where there is memory enough the file goes to a file system
in memory, so that the disk's moods are not measured.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from trihop._clock import SystemClock

SIZE_BYTES = 2**30
BLOCK = bytes(range(256)) * 4096
HEAD = b'HTTP/1.1 200 OK\r\nContent-Length: %d\r\nETag: "v1"\r\nAccept-Ranges: bytes\r\n\r\n' % SIZE_BYTES


_now_s = SystemClock().monotonic


class Cost(NamedTuple):
    """Of one download: seconds on the wall, seconds of CPU, bytes by which the process grew."""

    wall_s: float
    cpu_s: float
    grown_bytes: int = 0


# ---- the server, a process


def serve(certificate: str | None) -> None:
    """Answer each request with 1 GiB, until standard input ends."""
    context = None
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)

    def answer(connection: socket.socket) -> None:
        connection = connection if context is None else context.wrap_socket(connection, server_side=True)
        head = b""
        try:
            while data := connection.recv(65536):
                head += data
                if head.endswith(b"\r\n\r\n"):
                    head = b""
                    connection.sendall(HEAD)
                    for _ in range(SIZE_BYTES // len(BLOCK)):
                        connection.sendall(BLOCK)
        except OSError:
            pass

    def accept() -> None:
        while True:
            threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    sys.stdin.read()


@contextmanager
def serving(folder: Path, *, tls: bool) -> Iterator[tuple[str, str | None]]:
    """The server's URL and what to verify it with."""
    authority = certificate = None
    if tls:
        import trustme

        ca = trustme.CA()
        authority, certificate = str(folder / "ca.pem"), str(folder / "server.pem")
        ca.cert_pem.write_to_path(authority)
        ca.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(certificate)
    command = [sys.executable, "-m", "tests.bench.download", "serve", *([certificate] if certificate else [])]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield f"http{'s' if tls else ''}://127.0.0.1:{process.stdout.readline().strip()}/", authority
    finally:
        process.stdin.close()
        process.wait(10)
        process.stdout.close()


# ---- the variants


def fetch(url: str, target: str, authority: str, sha256: str) -> None:
    """One download by trihop; what it cost, as JSON. The process has everything imported before."""
    import requests

    from trihop import operation

    with requests.Session() as session:
        session.trust_env = False
        session.verify = authority or True
        with operation("bench", deadline=600, session=session) as op:
            before, began_s = resource.getrusage(resource.RUSAGE_SELF), _now_s()
            op.download(url, to=target, sha256=sha256 or None)
            wall_s, after = _now_s() - began_s, resource.getrusage(resource.RUSAGE_SELF)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps([wall_s, cpu_s, (after.ru_maxrss - before.ru_maxrss) * 1024]))


def by_trihop(url: str, target: Path, authority: str | None, sha256: str | None) -> Cost:
    """In a fresh process, its own start not counted."""
    command = [sys.executable, "-m", "tests.bench.download", "fetch", url, str(target), authority or "", sha256 or ""]
    return Cost(*json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))


def by_curl(url: str, target: Path, authority: str | None, sha256: str | None) -> Cost:
    """To a file; or, with a digest, piped through sha256sum and to no file."""
    curl = ["curl", "--silent", "--fail", "--noproxy", "*", *(["--cacert", authority] if authority else []), url]
    before, began_s = resource.getrusage(resource.RUSAGE_CHILDREN), _now_s()
    if sha256 is None:
        subprocess.run([*curl, "--output", str(target)], check=True)
    else:
        with subprocess.Popen(curl, stdout=subprocess.PIPE) as sender:
            found = subprocess.run(["sha256sum"], stdin=sender.stdout, capture_output=True, text=True, check=True)
        assert found.stdout.split()[0] == sha256
    wall_s, after = _now_s() - began_s, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Cost(wall_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


# ---- the table


def pairs(folder: Path, *, tls: bool, sha256: str | None, rounds: int) -> tuple[float, float, int]:
    """Medians of speed and CPU against curl, and of memory grown."""
    speeds, cpus, grown = [], [], []
    with serving(folder, tls=tls) as (url, authority):
        for turn in range(rounds):
            target, costs = folder / "body", {}
            for variant in (by_trihop, by_curl)[:: 1 if turn % 2 else -1]:
                costs[variant] = variant(url, target, authority, sha256)
                target.unlink(missing_ok=True)
            ours, theirs = costs[by_trihop], costs[by_curl]
            speeds.append(theirs.wall_s / ours.wall_s)
            cpus.append(ours.cpu_s / theirs.cpu_s)
            grown.append(ours.grown_bytes)
    return statistics.median(speeds), statistics.median(cpus), int(statistics.median(grown))


def report(rounds: int = 5) -> dict[str, float]:
    """Print the table; the ratios by name."""
    found: dict[str, float] = {}
    if shutil.which("curl") is None or shutil.which("sha256sum") is None:
        print("download: curl or sha256sum is missing; install them (apt-get install curl coreutils)")
        return found
    in_memory = Path("/dev/shm")
    room = in_memory.is_dir() and shutil.disk_usage(in_memory).free > 2 * SIZE_BYTES
    digest = hashlib.sha256()
    for _ in range(SIZE_BYTES // len(BLOCK)):
        digest.update(BLOCK)
    with tempfile.TemporaryDirectory(prefix="trihop-bench-", dir=in_memory if room else None) as temporary:
        for tls in (False, True):
            plain = (None, 1.0, 1.0) if tls else (None, 1.5, 0.60)
            for sha256, speed_limit, cpu_limit in (plain, (digest.hexdigest(), 0.0, 1.0)):
                speed, cpu, grown = pairs(Path(temporary), tls=tls, sha256=sha256, rounds=rounds)
                title = f"1 GiB{', TLS' if tls else ''}{', sha256' if sha256 else ''}"
                against = "curl | sha256sum" if sha256 else "curl"
                found |= {f"{title}: speed": speed, f"{title}: CPU": cpu, f"{title}: grown": grown / 2**20}
                reach = f"   (reach {speed_limit:.2f})" if speed_limit else ""
                print(f"{f'{title}: MB/s / {against}':<55} {speed:6.2f}{reach}")
                print(f"{f'{title}: CPU / {against}':<55} {cpu:6.2f}   (reach {cpu_limit:.2f})")
                print(
                    f"{f'{title}: memory grown, MiB':<55} {grown / 2**20:6.2f}   (reach {3 if tls else 1}.00)",
                    flush=True,
                )
    return found


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve", *certificate]:
            serve(certificate[0] if certificate else None)
        case ["fetch", url, target, authority, sha256]:
            fetch(url, target, authority, sha256)
        case _:
            report(int(os.environ.get("ROUNDS", "5")))
