"""A warm process that forks the children of the crash suite, so that none has to load Python and tidegate first.

    python -m tests.crash.zygote

It reads a job a line and answers with a verdict a line. Each job is two children: one that runs the scene and is cut
short, and one that has never seen the data and judges what is left. It itself opens nothing.
"""

import gc
import os
import select
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import msgspec

from tests.crash.acts import OPEN, PREPARE, Scene
from tests.crash.cuts import REFUSALS, Counts, Cut, Job, Shim, Told, Verdict
from tests.crash.judge import Reference, judge, would_send
from tests.crash.powercut import Disk, read_tape
from tests.crash.scenes import SCENES
from tests.crash.worlds import World
from tidegate.core.errors import NotKept, TidegateError
from tidegate.core.events import Event

PATIENCE = 600.0
"""Seconds until a child that hangs is killed."""
_encode = msgspec.json.Encoder().encode
_told = msgspec.json.Decoder(Told)


class Ended(msgspec.Struct):
    """What a child said, and how it ended: 0, or minus the signal."""

    lines: list[bytes]
    code: int


def forked(work: Callable[[Callable[[bytes], None]], object], *, kill_after: float = 0.0) -> Ended:
    """Run in a child. A line written to the pipe is safe from whatever happens to the child next."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _run_child(work, writing)
    os.close(writing)
    until, was_late = time.monotonic() + (kill_after or PATIENCE), False
    said = b""
    while True:
        ready = select.select([reading], [], [], max(0.0, until - time.monotonic()))[0]
        if not ready:
            os.kill(pid, signal.SIGKILL)
            until, was_late = time.monotonic() + PATIENCE, True
            continue
        part = os.read(reading, 65536)
        if not part:
            break
        said += part
    os.close(reading)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if was_late and not kill_after:
        said += _encode(Told(-1, "fault", text=f"it did not end within {PATIENCE:.0f} s")) + b"\n"
    return Ended(said.split(b"\n")[:-1], code)


def _run_child(work: Callable[[Callable[[bytes], None]], object], writing: int) -> None:
    code = 1
    try:
        work(lambda line: _write(writing, line + b"\n"))
        code = 0
    except BaseException:  # noqa: BLE001 - told to the parent, and this process ends here
        _write(writing, _encode(Told(-1, "fault", text=traceback.format_exc()[-3000:])) + b"\n")
    finally:
        os._exit(code)


def _write(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


# --- the child that is cut ----------------------------------------------------------------------------------------


def run_scene(scene: Scene, folder: Path, cut: Cut, tell: Callable[[bytes], None]) -> list[str]:
    """Gives the numbered steps it came by."""
    shim = Shim()
    steps: list[str] = []

    def step(name: str) -> None:
        steps.append(name)
        if len(steps) == cut.n:
            tell(_encode(Told(-1, "at", text=name)))
            os.kill(os.getpid(), signal.SIGKILL)

    world = World(folder, scene.settings, step if cut.kind == "step" else None)
    shim.arm(folder, cut)
    if scene.free is not None:
        scene.free(world, tell)
    for number, op in enumerate(scene.ops):
        while True:
            head = world.head() if number and op.atomic else -1
            try:
                op.run(world)
            except TidegateError as refusal:
                # What is done in many steps may be half done: it need only say so, and be called again.
                if not shim.refused or not refusal.remedy or not (op.again or isinstance(refusal, NotKept)):
                    raise
                shim.disarm()
                tell(_encode(Told(number, "refused", text="" if head in (-1, world.head()) else "half kept")))
                continue
            break
        if shim.refused and cut.how in REFUSALS:
            shim.disarm()
            tell(_encode(Told(number, "refused")))
        tell(_encode(_acknowledged(scene, world, number)))
    shim.disarm()
    return steps


def _acknowledged(scene: Scene, world: World, number: int) -> Told:
    """With the hash of the request, where one was prepared, and at the end."""
    taped = Shim().taped  # before anything else is done: it may sync what was not yet
    asked = scene.talks and (scene.ops[number] is PREPARE or number == len(scene.ops) - 1)
    return Told(number, "done", world.head(), would_send(world.session).hex() if asked else "", taped=taped)


# --- the runs that nobody cuts ------------------------------------------------------------------------------------


def lay(scene: Scene, work: Path) -> None:
    """What is there before, made once: every run starts from a copy of it."""
    template = work / "template"
    shutil.rmtree(template, ignore_errors=True)
    template.mkdir(parents=True, mode=0o700)
    if scene.lay is not None:
        world = World(template, scene.settings)
        scene.lay(world)
        world.close()


def refer(scene: Scene, work: Path) -> None:
    """Run the scene to its end, watched, and write down what was kept and what would have been sent all the way."""
    steps = run_scene(scene, fresh(work), Cut("step", 0), lambda _: None)
    folder, shim, begun = fresh(work), Shim(), time.monotonic()
    run_scene(scene, folder, Cut(), lambda _: None)
    milliseconds = int((time.monotonic() - begun) * 1000) + 1
    found = {kind: shim.counted(kind) for kind in ("write", "sync", "name")}
    found["power"] = tape(scene, work) if shim.loaded else 0
    world = World(fresh(work), scene.settings)
    reference = Reference([world.state()], {}, {}, Counts(step=len(steps), time=milliseconds, **found), steps)
    for number, op in enumerate(scene.ops):
        before = len(world.requests)
        op.run(world)
        reference.requests[number] = world.requests[before:]
        reference.states.append(world.state())
        if op is OPEN:
            _watch(world, reference)
    world.close()
    (work / "reference").write_bytes(msgspec.msgpack.encode(reference))


def tape(scene: Scene, work: Path) -> int:
    """Run the scene and write down every call, with what was acknowledged when. Gives how many calls there were."""
    folder, shim = fresh(work), Shim()
    told: list[bytes] = []
    with (work / "tape").open("wb") as file:
        shim.tape(file.fileno())
        run_scene(scene, folder, Cut(), told.append)
        shim.tape(-1)
    (work / "told").write_bytes(b"\n".join(told))
    return shim.taped


def _watch(world: World, reference: Reference) -> None:
    session = world.session

    def watch(_: Event) -> None:
        reference.live[session.view.head] = would_send(session)

    session.history.observe(watch)
    reference.live[session.view.head] = would_send(session)


def fresh(work: Path) -> Path:
    folder = work / "data"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(work / "template", folder)
    return folder


# --- jobs ---------------------------------------------------------------------------------------------------------


def serve(job: Job) -> Verdict:
    scene, work = SCENES[job.scene], Path(job.work)
    if job.cut.kind == "none":
        made = forked(lambda _: lay(scene, work))
        made = made if made.code else forked(lambda _: refer(scene, work))
        return Verdict(False, _faults(made))
    if job.cut.kind == "power":
        return power(scene, work, job.cut)
    folder = fresh(work)
    after = job.cut.n / 1000 if job.cut.kind == "time" else 0.0
    ended = forked(lambda tell: run_scene(scene, folder, job.cut, tell), kill_after=after)
    told = [_told.decode(line) for line in ended.lines]
    faults = _faults(ended) or judged(scene, job.cut, work, [line for line in told if line.what != "at"])
    refused = any(line.what == "refused" for line in told)
    at = next((line.text for line in told if line.what == "at"), "")
    done = sum(line.what == "done" for line in told)
    return Verdict(refused or ended.code == -signal.SIGKILL, faults, done, at)


def judged(scene: Scene, cut: Cut, work: Path, told: list[Told]) -> list[str]:
    reference = msgspec.msgpack.decode((work / "reference").read_bytes(), type=Reference)
    world = World(work / "data", scene.settings)
    return _faults(forked(lambda _: judge(scene, cut, reference, told, world)))


def power(scene: Scene, work: Path, cut: Cut) -> Verdict:
    """The disk as the power went after the n-th call, with what had been acknowledged by then."""
    disk = Disk(work / "template")
    for call in read_tape(work / "tape")[: cut.n]:
        disk.do(call)
    shutil.rmtree(work / "data", ignore_errors=True)
    (work / "data").mkdir(mode=0o700)
    disk.leave(work / "data", int(cut.how))
    told = [_told.decode(line) for line in (work / "told").read_bytes().split(b"\n")]
    told = [line for line in told if line.taped <= cut.n]
    return Verdict(True, judged(scene, cut, work, told), len(told))


def _faults(ended: Ended) -> list[str]:
    lines = [_told.decode(line) for line in ended.lines]
    faults = [line.text for line in lines if line.what == "fault"]
    return faults or ([f"it ended with {ended.code}"] if ended.code not in (0, -signal.SIGKILL) else [])


def main() -> None:
    gc.collect()
    gc.freeze()  # so that a child's collector does not write on every page it shares with us
    for line in sys.stdin.buffer:
        job = msgspec.json.decode(line, type=Job)
        sys.stdout.buffer.write(_encode(serve(job)) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
