"""`tidegate lab` and `tidegate tune` as commands: what they print, write, keep, and how they end."""

import csv
import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.calling import run_command
from tests.lab.recordings import record
from tidegate.core.errors import BadInput, BadPolicy
from tidegate.lab.scoring.measures import MEASURES
from tidegate.presets import load, preset_names

Json = dict[str, Any]
WINDOW = "2000"


def lab(tmp_path: Path, *words: str) -> int:
    """One process: starting others takes longer than the work, and one test below has them."""
    return run_command("lab", *words, "--cache", tmp_path / "cache", "--jobs", "1")


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recordings")
    record(folder, 6, 5)
    return folder


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that tests of this file share."""
    return tmp_path_factory.mktemp("kept")


def report(recordings: Path, kept: Path, out: Path, *words: str) -> Json:
    command = [str(recordings), "--window", WINDOW, "--policy", "default", "--policy", "ai", *words]
    assert lab(kept, *command, "--json", str(out / "out.json")) == 0
    found: Json = json.loads((out / "out.json").read_text("utf-8"))
    return found


def test_the_report(recordings: Path, kept: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = report(recordings, kept, tmp_path, "--csv", str(tmp_path / "out.csv"))
    shown = capsys.readouterr()
    assert "window 2,000: 6 sessions of 5 projects" in shown.out
    assert "95% intervals over 5 projects" in shown.out
    assert "difference from default" in shown.out
    assert "have no times: nothing expires" in shown.out
    assert shown.err == "", "no bar where there is no terminal"
    (window,) = found["windows"]
    assert window["counts"]["beyond"] > 50
    assert [each["policy"] for each in window["means"]] == ["default", "ai"]
    keys = [measure.key for measure in MEASURES]
    assert [each["key"] for each in found["measures"]] == keys
    rows = {(row["policy"], row["session"]): row["values"] for row in window["rows"]}
    assert len(rows) == 12
    for means in window["means"]:
        assert list(means["values"]) == keys
        for key, value in means["values"].items():
            values = [row[key] for (policy, _), row in rows.items() if policy == means["policy"]]
            values = [each for each in values if each is not None]
            assert value["n"] == len(values)
            assert value["mean"] == (pytest.approx(sum(values) / len(values)) if values else None)
        assert means["totals"]["over"] == means["totals"]["invalid"] == means["totals"]["failed"] == 0
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as file:
        written = list(csv.DictReader(file))
    assert len(written) == 12
    names = {each["key"]: each["name"] for each in found["sessions"]}
    for line in written:
        (key,) = [key for key, name in names.items() if name == line["session"]]
        assert float(line["cost"]) == rows[line["policy"], key]["cost"]


@pytest.mark.exhaustive
def test_a_curve_and_everyone_else_at_equal_cost(recordings: Path, kept: Path, tmp_path: Path, capsys: Any) -> None:
    own = f"{load('default').settings['fidelity']:g}"
    found = report(recordings, kept, tmp_path, "--curve", f"fidelity=0.1,{own}", "--csv", str(tmp_path / "out.csv"))
    assert lab(kept, str(recordings), "--gate", str(tmp_path / "out.json")) == 0
    shown = capsys.readouterr()
    assert "gate: 3 policies are as good as stored, or better" in shown.err, "the points of the curve are gated, too"
    assert shown.out.count("the curve of default by fidelity") == 2
    assert "at equal cost: default at the fidelity that costs the most without costing more" in shown.out
    (window,) = found["windows"]
    assert [each["policy"] for each in window["points"]] == ["default fidelity=0.1", "default"]
    assert window["points"][1]["values"] == window["means"][0]["values"]
    (equal,) = window["equal_cost"]
    costs = {each["policy"]: each["values"]["cost"]["mean"] for each in window["points"] if not each["beaten"]}
    theirs = window["means"][1]["values"]["cost"]["mean"]
    assert (equal["against"], equal["their_cost"], equal["cost"]) == ("ai", theirs, costs[equal["point"]])
    assert equal["dearer"] == (min(costs.values()) > theirs)
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as file:
        assert len(list(csv.DictReader(file))) == 18
    with (tmp_path / "out.equal-cost.csv").open(encoding="utf-8", newline="") as file:
        assert {row["point"] for row in csv.DictReader(file)} == {equal["point"]}


def test_negative_cases_are_printed(recordings: Path, kept: Path, tmp_path: Path, capsys: Any) -> None:
    found = report(recordings, kept, tmp_path)
    (window,) = found["windows"]
    dear = [row for row in window["rows"] if row["values"]["cost"] > 1]
    listed = [each for each in window["worse"] if each["measure"] == "cost"]
    assert sorted((each["session"], each["policy"]) for each in listed) == sorted(
        (row["session"], row["policy"]) for row in dear
    )
    assert "negative cases: " in capsys.readouterr().out


def test_curves_and_what_was_lost(recordings: Path, kept: Path, tmp_path: Path) -> None:
    (window,) = report(recordings, kept, tmp_path)["windows"]
    for curve in window["curves"]:
        assert len(curve["at"]) == len(curve["tokens"]) == len(curve["read"]) <= 240
        assert max(curve["tokens"]) <= 2000
        assert set(curve["edits"]) <= set(range(1, 500))
    lost = [item for each in window["lost"] for item in each["items"]]
    assert {item["measure"] for item in lost} <= {"far", "anchors"}
    assert any(item["recoverable"] for item in lost)


def test_a_second_run_comes_from_the_cache(recordings: Path, tmp_path: Path, capsys: Any) -> None:
    command = [str(recordings / "session-1.jsonl"), "--window", WINDOW, "--policy", "default"]
    assert lab(tmp_path, *command) == 0
    first = capsys.readouterr().out
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*.mp")}
    assert lab(tmp_path, *command) == 0
    assert capsys.readouterr().out == first
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*.mp")}
    changed = [path for path in after if before.get(path) != after[path]]
    assert len(changed) == 1, "the list of common names is written again, nothing else"
    for path in after:
        path.write_bytes(b"damaged")
    assert lab(tmp_path, *command) == 0
    again = capsys.readouterr().out
    assert _without_pause(again) == _without_pause(first)


def _without_pause(text: str) -> list[list[str]]:
    """The time it took is the one figure that is measured anew."""
    return [line.split()[:-1] if line.startswith("default") else line.split() for line in text.splitlines()]


def test_a_changed_policy_file_is_another_policy(recordings: Path, tmp_path: Path, capsys: Any) -> None:
    policy = tmp_path / "mine.yaml"
    shown = []
    for share in ("0.9", "0.2"):
        rule = f"{{stage: shrink_to, when: {{pressure: '> 0.95'}}, share: {share}}}"
        policy.write_text(f"name: mine\nmoments:\n  before_call:\n    - {rule}\n")
        command = [str(recordings / "session-1.jsonl"), "--window", WINDOW, "--policy", str(policy)]
        assert lab(tmp_path, *command) == 0
        shown.append(next(line for line in capsys.readouterr().out.splitlines() if line.startswith("mine")))
    assert shown[0] != shown[1]


@pytest.mark.exhaustive
def test_two_processes_and_the_cache_give_the_same_to_the_last_digit(recordings: Path, tmp_path: Path) -> None:
    files = [str(recordings / f"session-{number}.jsonl") for number in range(3)]
    found = []
    for place, (cache, jobs) in enumerate((("one", "1"), ("two", "2"), ("two", "1"))):
        out = tmp_path / f"{place}.json"
        words = ["lab", *files, "--window", WINDOW, "--policy", "default", "--cache", str(tmp_path / cache)]
        assert run_command(*words, "--jobs", jobs, "--json", out) == 0
        found.append({**json.loads(out.read_text("utf-8")), "made": ""})
    alone, together, again = found
    assert json.dumps(again) == json.dumps(together), "from the cache even the times are those that were measured"
    for each in (alone, together):
        (window,) = each["windows"]
        for values in (*window["rows"], *window["means"]):
            values["values"].pop("pause")
    assert json.dumps(alone) == json.dumps(together)


def stop_in_the_middle(sessions: Path, cache: Path, result: Path) -> tuple[int, str, str]:
    """Interrupt a comparison of all policies when the first session is measured; return its status and its output."""
    words = ["lab", sessions, "--window", WINDOW, "--cache", cache, "--jobs", "1", "--json", result]
    process = subprocess.Popen(
        [sys.executable, "-m", "tidegate", *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    scanned = len(list(sessions.iterdir())) + 1
    while process.poll() is None and len(list(cache.rglob("*.mp"))) <= scanned + len(preset_names()):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, error = process.communicate()
    return process.returncode, out, error


@pytest.mark.exhaustive
def test_stopped_in_the_middle_it_keeps_what_is_done_and_goes_on(recordings: Path, tmp_path: Path) -> None:
    sessions, folder, result, count = recordings, tmp_path, tmp_path / "out.json", 6
    status, out, error = stop_in_the_middle(sessions, folder / "cache", result)
    while status == 0:  # the interrupt came after its end: compare more sessions
        count, folder = 4 * count, folder / "again"
        sessions = folder / "sessions"
        record(sessions, count, 5)
        status, out, error = stop_in_the_middle(sessions, folder / "cache", result)
    assert status == 130, error
    assert "stopped; finished results are kept" in error
    assert "Traceback" not in error
    assert "not measured yet" in out
    partial = json.loads(result.read_text("utf-8"))
    done = {(row["policy"], row["session"]): row["values"] for row in partial["windows"][0]["rows"]}
    cells = count * len(preset_names())
    assert 0 < len(done) < cells
    assert partial["unfinished"] == cells - len(done)
    again = [str(sessions), "--window", WINDOW, "--policy", "default", "--json", str(result)]
    assert lab(folder, *again) == 0
    whole = json.loads(result.read_text("utf-8"))
    rest = {(row["policy"], row["session"]): row["values"] for row in whole["windows"][0]["rows"]}
    assert (len(rest), whole["unfinished"]) == (count, 0)
    before = {key: values for key, values in done.items() if key[0] == "default"}
    assert before
    assert {key: rest[key] for key in before} == before, "the very same, the pause too: they were not measured again"


def test_gate(recordings: Path, kept: Path, tmp_path: Path, capsys: Any) -> None:
    stored = tmp_path / "stored.json"
    command = [str(recordings), "--window", WINDOW, "--policy", "default"]
    assert lab(kept, *command, "--model", "gpt-5", "--longer", "1.2", "--save", str(stored)) == 0
    assert lab(kept, str(recordings), "--gate", str(stored)) == 0
    assert "as good as stored, or better" in capsys.readouterr().err
    value = json.loads(stored.read_text("utf-8"))
    assert "curves" not in value["windows"][0]
    for row in value["windows"][0]["rows"]:
        row["values"]["user"] += 0.1
        row["values"]["cost"] -= 0.2
    stored.write_text(json.dumps(value))
    assert lab(kept, str(recordings), "--gate", str(stored)) == 1
    said = capsys.readouterr().err
    assert "worse: window 2,000, default: words of the user: -0.1000" in said
    assert "worse: window 2,000, default: cost, warm cache: +0.2000" in said
    assert "far references" not in said
    with pytest.raises(BadInput, match="Nothing to compare"):
        lab(kept, str(recordings), "--window", "3000", "--gate", str(stored))


def test_gate_with_noise_is_open_and_with_defects_is_shut(recordings: Path, kept: Path, tmp_path: Path) -> None:
    stored = tmp_path / "stored.json"
    assert lab(kept, str(recordings), "--window", WINDOW, "--policy", "default", "--save", str(stored)) == 0
    value = json.loads(stored.read_text("utf-8"))
    for number, row in enumerate(value["windows"][0]["rows"]):
        row["values"]["user"] += 0.2 if number % 2 else -0.15
    stored.write_text(json.dumps(value))
    assert lab(kept, str(recordings), "--gate", str(stored)) == 0, "a mean that is off, within its interval"
    assert lab(kept, str(recordings), "--gate", str(stored), "--policy", "default") == 0
    value["windows"][0]["rows"][0]["values"]["invalid"] = -1
    stored.write_text(json.dumps(value))
    assert lab(kept, str(recordings), "--gate", str(stored)) == 1


def test_what_cannot_be_read_is_said_and_the_rest_is_measured(
    recordings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"role": "wizard"}\n')
    again = tmp_path / "again.jsonl"
    again.write_bytes((recordings / "session-1.jsonl").read_bytes())
    files = [str(bad), str(again), str(recordings / "session-1.jsonl")]
    assert lab(tmp_path, *files, "--window", WINDOW, "--policy", "default") == 1
    shown = capsys.readouterr()
    assert "bad.jsonl" in shown.err
    assert "remedy: " in shown.err
    assert "the same session as" in shown.err
    assert "1 session of 1 project" in shown.out
    assert "too few sessions for intervals" in shown.out


def test_a_window_no_session_reaches(recordings: Path, kept: Path, tmp_path: Path, capsys: Any) -> None:
    command = [str(recordings), "--window", "1000000", "--policy", "default", "--json", str(tmp_path / "x.json")]
    assert lab(kept, *command) == 0
    assert "nothing is measured" in capsys.readouterr().out
    (window,) = json.loads((tmp_path / "x.json").read_text("utf-8"))["windows"]
    assert len(window["left_out"]) == 6


def test_the_page_is_written(recordings: Path, kept: Path, tmp_path: Path) -> None:
    report(recordings, kept, tmp_path, "--html", str(tmp_path / "page.html"))
    assert "</html>" in (tmp_path / "page.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (("--window", WINDOW), "No session is given"),
        (("RECORDINGS",), "No window is given"),
        (("RECORDINGS", "--window", WINDOW, "--baseline", "nobody"), "not among the policies"),
        (("RECORDINGS", "--window", WINDOW, "--model", "no-such-model"), "prices of 'no-such-model' are not known"),
        (("RECORDINGS", "--window", WINDOW, "--common", "RECORDINGS/session-0.jsonl"), "broken JSON"),
        (("RECORDINGS", "--window", WINDOW, "--peer", "nobody"), "There is no peer 'nobody'"),
        (("RECORDINGS", "--gate", "RECORDINGS/session-0.jsonl"), "broken JSON|not a result"),
        (("RECORDINGS", "--gate", "RECORDINGS/absent.json"), "cannot be read"),
        (("RECORDINGS", "--window", WINDOW, "--curve", "fidelity"), "is not a curve"),
    ],
)
def test_a_wrong_call(words: tuple[str, ...], cause: str, recordings: Path, kept: Path) -> None:
    given = [word.replace("RECORDINGS", str(recordings)) for word in words]
    with pytest.raises(BadInput, match=cause) as caught:
        lab(kept, *given)
    assert caught.value.remedy


def test_an_unknown_policy(recordings: Path, kept: Path) -> None:
    with pytest.raises(BadPolicy, match="nobody"):
        lab(kept, str(recordings), "--window", WINDOW, "--policy", "nobody")


@pytest.mark.exhaustive
def test_a_list_of_common_names(recordings: Path, kept: Path, tmp_path: Path) -> None:
    names, out = tmp_path / "common.json", tmp_path / "fewer.json"
    (plain,) = report(recordings, kept, tmp_path)["windows"]
    lost = {item["what"] for each in plain["lost"] for item in each["items"] if item["measure"] == "far"}
    names.write_text(json.dumps(sorted(lost)))
    command = [str(recordings), "--window", WINDOW, "--policy", "ai", "--common", str(names)]
    assert lab(kept, *command, "--json", str(out)) == 0
    (fewer,) = json.loads(out.read_text("utf-8"))["windows"]
    assert 0 < fewer["counts"]["far"] < plain["counts"]["far"]


def test_a_bar_on_a_terminal_only(tmp_path: Path) -> None:
    master, slave = pty.openpty()
    program = (
        "from tidegate.terminal.output import show_progress\nwith show_progress('measuring', 3) as step:\n    step(2)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, stderr=slave, env={**os.environ, "TERM": "xterm"})
    os.close(slave)
    shown = b""
    while True:
        try:
            shown += os.read(master, 4096)
        except OSError:  # the other end is closed: all was read
            break
    os.close(master)
    assert b"measuring" in shown
    assert b"/3" in shown
    quiet = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    assert quiet.stderr == b""
