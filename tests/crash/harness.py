"""Drives the zygote: which cuts there are, and asking for one after the other."""

import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import msgspec

import tidegate
from tests.crash.cuts import SHIM_KINDS, Counts, Cut, Job, Verdict, build_shim
from tests.crash.judge import Reference

ROOT = Path(__file__).parents[2]
SOURCE = Path(tidegate.__file__).parents[1]


class Zygote:
    """The warm process, with the shim if this machine can compile it."""

    def __init__(self, work: Path) -> None:
        self.work = work.resolve()
        self.shim = build_shim(self.work)
        self.ready: set[str] = set()
        environment = {**os.environ, "PYTHONPATH": f"{SOURCE}{os.pathsep}{ROOT}"}
        if self.shim is not None:
            environment["LD_PRELOAD"] = str(self.shim)
        command = [sys.executable, "-m", "tests.crash.zygote"]
        # A session of its own: Ctrl-C reaches us, and we end it.
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, cwd=ROOT, start_new_session=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def counts(self, scene: str) -> Counts:
        """Makes the scene ready: its template and its reference."""
        path = self.work / scene / "reference"
        if scene not in self.ready:
            verdict = self._ask(Job(scene, str(self.work / scene)))
            if verdict.faults:
                raise AssertionError(f"the scene {scene} does not run to its end:\n" + "\n".join(verdict.faults))
            self.ready.add(scene)
        return msgspec.msgpack.decode(path.read_bytes(), type=Reference).counts

    def cut(self, scene: str, cut: Cut) -> Verdict:
        self.counts(scene)
        return self._ask(Job(scene, str(self.work / scene), cut))

    def _ask(self, job: Job) -> Verdict:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(job) + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise AssertionError(f"the zygote ended with {self._process.wait()}")
        return msgspec.json.decode(line, type=Verdict)


def every_cut(counts: Counts, *, seed: int = 0, times: int = 20, powers: int = 60) -> Iterator[Cut]:
    """Each step, each write torn or after, each sync and name before and after, each refusal; by chance some times
    and some power cuts."""
    dice = random.Random(seed)
    yield from (Cut("step", n) for n in range(1, counts.step + 1))
    yield from (Cut("write", n, dice.choice(("middle", "after"))) for n in range(1, counts.write + 1))
    yield from (Cut("sync", n, how) for n in range(1, counts.sync + 1) for how in ("before", "after"))
    yield from (Cut("name", n, how) for n in range(1, counts.name + 1) for how in ("before", "after"))
    yield from (Cut("time", dice.randint(1, counts.time)) for _ in range(times))
    for n in sorted(dice.sample(range(1, counts.power + 1), min(powers, counts.power))):
        yield Cut("power", n, str(dice.choice((0, 1, n + 2))))
    yield from (Cut("write", n, dice.choice(("refuse", "full"))) for n in range(1, counts.write + 1))
    for kind in SHIM_KINDS[1:]:
        yield from (Cut(kind, n, "refuse") for n in range(1, getattr(counts, kind) + 1))


ROOM = 1 << 30
"""Bytes that must be free in memory; a container may have very little of it."""


@contextmanager
def workplace() -> Iterator[Path]:
    """In memory, if that can be had: a kill loses nothing that was written, so no real disk is needed."""
    memory = Path("/dev/shm")
    home = memory if os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > ROOM else None
    with tempfile.TemporaryDirectory(dir=home, prefix="tidegate-crash-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def thinned(cuts: list[Cut], most: int, dice: random.Random) -> list[Cut]:
    """At most so many of each kind and way, from all over."""
    groups: dict[tuple[str, str], list[Cut]] = {}
    for cut in cuts:
        groups.setdefault((cut.kind, "" if cut.kind == "power" else cut.how), []).append(cut)
    return [cut for group in groups.values() for cut in dice.sample(group, min(most, len(group)))]
