"""A sample of the crash suite: some cuts of each kind. All of them: `make crash`."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.cuts import REFUSALS, SHIM_KINDS, Cut
from tests.crash.harness import Zygote, every_cut, workplace
from tests.crash.powercut import Call, Disk
from tests.crash.scenes import SCENES
from tests.scale import scaled

KINDS = ("step", "time", *SHIM_KINDS, "refused", "power")
SAMPLE = [
    pytest.param(scene, KINDS[(place + 2 * more) % len(KINDS)], marks=[] if is_usual else [pytest.mark.exhaustive])
    for place, scene in enumerate(SCENES)
    for more in range(scaled(2, len(KINDS)))
    for is_usual in [more == 0 and place < len(KINDS)]
]
"""Two kinds in each scene, each kind in three or four scenes; all pairs with `TIDEGATE_CASES=4`. In `make test` each
kind is tried once, each in another scene."""


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    with workplace() as folder, Zygote(folder) as zygote:
        yield zygote


def kind_of(cut: Cut) -> str:
    return "refused" if cut.how in REFUSALS else cut.kind


@pytest.mark.parametrize(("scene", "kind"), SAMPLE)
def test_what_was_acknowledged_is_there_and_it_goes_on(scene: str, kind: str, zygote: Zygote) -> None:
    if kind not in ("step", "time") and zygote.shim is None:
        pytest.skip("to cut a process at its n-th write needs Linux and a C compiler")
    cuts = [cut for cut in every_cut(zygote.counts(scene)) if kind_of(cut) == kind]
    cut = random.Random(f"{scene} {kind}").choice(cuts)
    verdict = zygote.cut(scene, cut)
    assert verdict.faults == [], f"python -m tests.crash {scene} {cut}\n" + "\n".join(verdict.faults)
    by_chance = kind == "time" or SCENES[scene].free is not None
    assert verdict.cut or by_chance, f"{cut} cut nothing"


def survived(disk: Disk, folder: Path, seed: int) -> dict[str, bytes]:
    folder.mkdir()
    disk.leave(folder, seed)
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_power_cut_takes_what_was_not_synced(tmp_path: Path) -> None:
    (tmp_path / "before").mkdir()
    (tmp_path / "before" / "old").write_bytes(b"old")
    disk = Disk(tmp_path / "before")
    disk.do(Call("create", 0, "new", "", b""))
    disk.do(Call("write", 0, "new", "", b"synced"))
    disk.do(Call("sync", 0, "new", "", b""))
    disk.do(Call("write", 6, "new", "", b" not"))
    assert survived(disk, tmp_path / "1", 0) == {"old": b"old"}, "the name was not synced"
    assert survived(disk, tmp_path / "2", 1) == {"old": b"old", "new": b"synced not"}
    disk.do(Call("rename", 0, "new", "old", b""))
    assert survived(disk, tmp_path / "3", 0) == {"old": b"old"}
    disk.do(Call("sync", 0, "", "", b""))
    assert survived(disk, tmp_path / "4", 0) == {"old": b"synced"}
