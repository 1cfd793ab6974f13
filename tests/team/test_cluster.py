"""The lab on a Dask cluster of two worker processes gives the report of the local run, whatever happens to a worker."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.free_port import find_free_port
from tests.lab.recordings import record
from tests.store.conftest import wait_until
from tests.team.dask_tasks import square_or_die_once
from tidegate.core.errors import BadInput, TidegateError
from tidegate.lab.dask_engine import DaskEngine, open_engine

ROOT = Path(__file__).parents[2]
needs_dask = pytest.mark.skipif(find_spec("distributed") is None, reason="the extra `cluster` is not installed")
PYTHON = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}


class Cluster:
    """A scheduler, and workers that are not started again when they are killed. They have folders of their own."""

    def __init__(self, folder: Path) -> None:
        self.address = f"127.0.0.1:{find_free_port()}"
        self._folder = folder
        self._stack = ExitStack()
        host, port = self.address.split(":")
        self._start("scheduler", "--host", host, "--port", port, "--no-dashboard")
        self.workers: list[subprocess.Popen[bytes]] = []

    def add_worker(self) -> None:
        own = self._folder / f"worker{len(self.workers)}"
        own.mkdir()
        arguments = ("--no-nanny", "--nthreads", "1", "--no-dashboard", "--local-directory", str(own))
        self.workers.append(self._start("worker", f"tcp://{self.address}", *arguments))

    def _start(self, part: str, *arguments: str) -> subprocess.Popen[bytes]:
        log = self._stack.enter_context((self._folder / f"{part}.log").open("ab"))
        command = [sys.executable, "-m", f"distributed.cli.dask_{part}", *arguments]
        process = subprocess.Popen(command, env=PYTHON, cwd=self._folder, stdout=log, stderr=log)
        self._stack.callback(process.wait, 120)
        self._stack.callback(process.kill)
        return process

    def close(self) -> None:
        self._stack.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    folder = tmp_path / "cluster"
    folder.mkdir()
    cluster = Cluster(folder)
    for _ in range(2):
        cluster.add_worker()
    yield cluster
    cluster.close()


def run_lab(tmp_path: Path, name: str, *arguments: str) -> subprocess.Popen[bytes]:
    cache, report = tmp_path / f"cache-{name}", tmp_path / f"{name}.json"
    command = [sys.executable, "-m", "tidegate", "lab", *arguments, "--window", "2000", "--cache", str(cache)]
    return subprocess.Popen([*command, "--json", str(report)], env=PYTHON, stdout=subprocess.DEVNULL)


def read_report(path: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads(path.read_bytes())
    assert report.pop("made")
    for window in report["windows"]:  # the pause is a time that was measured, and never the same twice
        assert all(each["values"].pop("pause") for each in (*window["means"], *window["rows"]))
    return report


@needs_dask
def test_the_report_is_that_of_the_local_run_also_if_a_worker_is_killed(tmp_path: Path, cluster: Cluster) -> None:
    record(tmp_path / "recordings", 6, 3, turns=6)
    policy = tmp_path / "mine.yaml"
    policy.write_text((ROOT / "src/tidegate/presets/jutul.yaml").read_text())
    arguments = (str(tmp_path / "recordings"), "--policy", "default", "--policy", str(policy))
    local = run_lab(tmp_path, "local", *arguments, "--jobs", "1")
    assert local.wait(1200) == 0
    remote = run_lab(tmp_path, "remote", *arguments, "--engine", f"dask://{cluster.address}")
    scanned = 7  # six files that were read and the common names; the next result is one of a worker
    assert wait_until(lambda: sum(1 for _ in (tmp_path / "cache-remote").glob("*/*.mp")) > scanned, 600)
    cluster.workers[0].send_signal(signal.SIGKILL)
    assert remote.wait(1200) == 0
    assert cluster.workers[0].wait(120) == -signal.SIGKILL
    assert read_report(tmp_path / "remote.json") == read_report(tmp_path / "local.json")


@needs_dask
def test_a_task_whose_worker_is_lost_is_done_by_another(tmp_path: Path, cluster: Cluster) -> None:
    tasks = [(number, str(tmp_path / "died") if number == 3 else "") for number in range(12)]
    assert sorted(DaskEngine(cluster.address).run(square_or_die_once, tasks)) == [n * n for n in range(12)]
    assert (tmp_path / "died").exists()
    assert wait_until(lambda: -signal.SIGKILL in {worker.poll() for worker in cluster.workers}), "no worker was lost"


@needs_dask
def test_a_scheduler_that_does_not_answer_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TidegateError, match="does not answer"):
        list(DaskEngine(f"127.0.0.1:{find_free_port()}").run(square_or_die_once, [(1, "")]))


@pytest.mark.skipif(find_spec("fsspec") is None, reason="the extra `cluster` is not installed")
def test_recordings_of_a_url_give_the_same_report(tmp_path: Path) -> None:
    record(tmp_path / "recordings", 2, 2)
    for name, paths in (("url", f"file://{tmp_path}/recordings/*.jsonl"), ("folder", str(tmp_path / "recordings"))):
        assert run_lab(tmp_path, name, paths, "--policy", "default", "--jobs", "1").wait(1200) == 0
    assert read_report(tmp_path / "url.json") == read_report(tmp_path / "folder.json")


def test_an_engine_that_is_none() -> None:
    for address in ("dask:8786", "ray://host", "dask://"):
        with pytest.raises(BadInput, match="not an engine"):
            open_engine(address, 1)
