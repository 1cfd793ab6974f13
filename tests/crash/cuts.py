"""The words between the parts of the crash suite: where a process is cut short, what it told, what was found."""

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec

SHIM_KINDS = ("write", "sync", "name")
SHIM_WAYS = ("nothing", "before", "middle", "after", "refuse", "full")
KINDS = ("step", *SHIM_KINDS, "time", "power")
REFUSALS = ("refuse", "full")


class Cut(msgspec.Struct, frozen=True):
    """At the `n`-th of a `kind`: a numbered step, a write, a sync, a change of names, a millisecond, a taped call.

    `how`: die before it, in its middle or after it; refuse it once, or from a short write on all of them until there is
    room again. For power: the seed of what survives of that which was not synced.
    """

    kind: str = "none"
    n: int = 0
    how: str = "before"

    def __str__(self) -> str:
        return f"{self.kind} {self.n} {self.how}"


class Told(msgspec.Struct, frozen=True):
    """One line of a child: an operation was acknowledged (`head` of the session's log, hash of the request)."""

    op: int
    what: str = "done"
    head: int = 0
    request: str = ""
    text: str = ""
    taped: int = 0


class Job(msgspec.Struct, frozen=True):
    """What the zygote is asked to do: run a scene to a cut and judge what is left; or make its reference."""

    scene: str
    work: str
    cut: Cut = Cut()


class Verdict(msgspec.Struct, frozen=True):
    """`cut`: the child was really killed or refused. `at` is the name of the step."""

    cut: bool
    faults: list[str]
    done: int = 0
    at: str = ""


class Counts(msgspec.Struct, frozen=True):
    """How often a whole run of a scene does what it may be cut at."""

    step: int = 0
    write: int = 0
    sync: int = 0
    name: int = 0
    time: int = 0
    power: int = 0


class Shim:
    """The counting library, preloaded into this process; see shim.c."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)
        self.loaded = hasattr(self._library, "crash_arm")

    def arm(self, folder: Path, cut: Cut) -> None:
        if self.loaded:
            kind = SHIM_KINDS.index(cut.kind) if cut.kind in SHIM_KINDS else 0
            how = SHIM_WAYS.index(cut.how) if cut.kind in SHIM_KINDS else 0
            self._library.crash_arm(str(folder).encode(), kind, ctypes.c_long(cut.n), how)

    def disarm(self) -> None:
        if self.loaded:
            self._library.crash_disarm()

    def slow(self, microseconds: int) -> None:
        """How long a sync takes at least: in memory it takes no time, and nobody would have to wait for another."""
        if self.loaded:
            self._library.crash_slow(ctypes.c_long(microseconds))

    def tape(self, file: int) -> None:
        self._library.crash_tape(file)

    @property
    def taped(self) -> int:
        return int(self._library.crash_taped()) if self.loaded else 0

    @property
    def refused(self) -> int:
        return int(self._library.crash_refused()) if self.loaded else 0

    def counted(self, kind: str) -> int:
        return int(self._library.crash_counted(SHIM_KINDS.index(kind))) if self.loaded else 0


def build_shim(folder: Path) -> Path | None:
    """The library, compiled here and now; None where there is no compiler, or another system than Linux."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or sys.platform != "linux":
        return None
    made = folder / "shim.so"
    source = Path(__file__).with_name("shim.c")
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", str(made), str(source), "-ldl"], check=True)
    return made
