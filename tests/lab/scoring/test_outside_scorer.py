"""The same figures as the reference scorer, on the same requests, where it is at hand."""

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.scale import parametrize_pairs
from tidegate.core.tokens.counting import CharsPerToken
from tidegate.lab.comparison.confidence_intervals import SessionSample, estimate_difference, estimate_mean
from tidegate.lab.comparison.session_sources import get_project
from tidegate.lab.importers import read_recordings
from tidegate.lab.replay.recording_file import RecordedLine
from tidegate.lab.replay.session_replay import ReplaySetup, replay_session
from tidegate.lab.scoring.contender_request import ContenderRequest
from tidegate.lab.scoring.input_bill import InputBill
from tidegate.lab.scoring.request_scorer import RequestScorer, ScoringTask, compute_unmanaged_cost
from tidegate.lab.scoring.request_size import UnitCounter
from tidegate.lab.scoring.signals import extract_signals
from tidegate.presets import load

SHARED = Path(__file__).parents[4] / "shared"
SCORE = SHARED / "score" / "score.py"
RECORDINGS = ("cc-auth-go-1", "codex-git-sync-6", "opencode-session-bridge-1")
WINDOW = 8_000
SAME = {
    "held": "held", "largest": "max",
    "user": "user_kept", "newest": "last_user", "cached": "prefix", "cost": "cost", "sent": "cost_nc", "edits": "edits",
    "over": "over", "failed": "failed",
}  # fmt: skip
RULER = UnitCounter(CharsPerToken(4))

pytestmark = pytest.mark.skipif(not SCORE.exists(), reason="the reference scorer is not here")


@pytest.fixture(scope="module")
def score() -> Iterator[Any]:
    path, known = list(sys.path), set(sys.modules)
    spec = importlib.util.spec_from_file_location("score", SCORE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.path[:] = path
    for name in set(sys.modules) - known:
        if name in ("score", "refs"):
            del sys.modules[name]


@pytest.fixture(scope="module")
def common() -> frozenset[str]:
    return frozenset(json.loads((SHARED / "score" / "common.json").read_text("utf-8")))


def tail(messages: list[dict[str, Any]], at: int) -> list[dict[str, Any]]:
    """A careless policy: the last few messages, whatever they are."""
    return messages[max(0, at - 7) : at]


@parametrize_pairs(("name", "policy"), RECORDINGS, ["default", "ai", "tail"])
def test_the_same_figures(score: Any, common: frozenset[str], name: str, policy: str) -> None:
    path = SHARED / "transcripts" / f"{name}.jsonl.gz"
    (recording,) = read_recordings(path)
    messages: list[dict[str, Any]] = list(recording.messages)
    theirs = score.Score(score.Transcript(str(path), common), WINDOW)
    task = ScoringTask(extract_signals(messages, RULER), messages, RULER, WINDOW, common)
    gauge = RequestScorer(task, InputBill(()))

    def sink(asked: ContenderRequest) -> None:
        gauge.add_request(asked)
        theirs.add(asked.message_index, None if asked.error else list(asked.messages))

    if policy == "tail":
        for at, message in enumerate(messages):
            if message["role"] == "assistant":
                sink(ContenderRequest(at, tail(messages, at)))
    else:
        lines = [RecordedLine(at, message) for at, message in enumerate(messages)]
        replay_session(name, lines, ReplaySetup(load(policy), WINDOW, "chars/4"), on_request=sink)
    figures = gauge.finish()
    figures.unmanaged = compute_unmanaged_cost(task, InputBill(()))
    mine, result = figures.compute_measures(), theirs.result()
    assert get_project(recording) == result["repo"]
    assert result["beyond"] == figures.requests_beyond_window > 0
    for key, their_key in SAME.items():
        theirs_too = result[their_key]
        assert mine[key] == (None if theirs_too is None else pytest.approx(theirs_too, rel=1e-12)), key
    for share, kept, of in (
        (figures.all_references, "hit_refs", "n_refs"),
        (figures.far_references, "hit_far", "n_far"),
        (figures.all_anchors, "hit_anch", "n_anch"),
        (figures.far_anchors, "hit_anch_far", "n_anch_far"),
    ):
        assert (share.kept, share.total) == (result[kept], result[of])
    assert (figures.broken_chat, figures.broken_turns) == (result["inv_oai"], result["inv_ant"])


def rows(shift: float) -> list[dict[str, Any]]:
    """Sessions of seven projects, some without an answer."""
    return [
        {
            "stem": f"s{number}",
            "repo": f"r{number % 7}",
            "recall_far": None if number % 5 == 0 else (number * 37 % 100) / 100 + shift * (number % 3),
        }
        for number in range(40)
    ]


def test_the_same_intervals(score: Any) -> None:
    before, after = rows(0), rows(0.1)
    groups = {row["stem"]: row["repo"] for row in before}
    counts = dict.fromkeys(
        ("requests", "beyond", "over", "failed", "inv_oai", "inv_ant", "source_faults", "max"), 0
    ) | dict.fromkeys(("n_refs", "n_far", "n_anch", "n_anch_far", "hit_refs", "hit_far", "hit_anch_far"), 0)
    whole = [{**dict.fromkeys(score.MEANS, 0.0), **counts, "faults": {}, **row} for row in after]
    theirs = score.aggregate(whole)
    mine = estimate_mean([SessionSample(row["repo"], row["recall_far"]) for row in after])
    assert mine.mean == pytest.approx(theirs["recall_far"])
    assert [mine.low, mine.high] == pytest.approx(theirs["recall_far_ci"])
    mean, low, high, n = score.paired(after, before, "recall_far")
    difference = estimate_difference(
        {row["stem"]: row["recall_far"] for row in after}, {row["stem"]: row["recall_far"] for row in before}, groups
    )
    assert (difference.mean, difference.low, difference.high, difference.session_count) == pytest.approx(
        (mean, low, high, n)
    )
