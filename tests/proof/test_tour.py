"""The tour of `tidegate demo`: every figure is computed, and the rule, the fact and the proof are really there."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.calling import called
from tests.cli.command_server import shared_command_server
from tidegate.proof.demo.bug_fix import INVENTED, ORDER, RULE, BugFix
from tidegate.session.session import Session


class PlayedTour(NamedTuple):
    text: str
    recording: Path


@pytest.fixture(scope="module")
def tour(tmp_path_factory: pytest.TempPathFactory) -> PlayedTour:
    recording = tmp_path_factory.mktemp("tour") / "recordings" / "fix.jsonl"
    done = shared_command_server().run(["demo", "--fast", "--save", str(recording)], Path.cwd(), os.environ)
    assert done.status == 0, done.err
    return PlayedTour(done.out, recording)


def test_it_tells_the_story_and_ends_with_the_proof(tour: PlayedTour) -> None:
    assert "\x1b[" not in tour.text, "no colors where there is no terminal"
    for line in (
        r"what filled the window: \d+ messages: results of \w+ \d+%",
        r"what left it: \d+ messages: .*The log has all of it",
        rf"the check marked an invention: {INVENTED} \(not found in the log",
        r"the rule of step 3 was in 278 of 278 requests since",
        rf"found order={ORDER} in m\d+, a log of step 60; it had left the request",
        r"what it cost: \$\d+\.\d\d at the prices of .*: 0\.\d\d of that",
        r"300 requests: 0 over the window",
    ):
        assert re.search(line, tour.text), line
    assert "guard" not in tour.text
    assert tour.text.count("\n  yes  ") == 4


@pytest.mark.exhaustive
def test_the_saved_session_is_a_recording_for_the_lab(tour: PlayedTour) -> None:
    messages = [json.loads(line) for line in tour.recording.read_text().splitlines()]
    said = [str(message["content"]) for message in messages if message["role"] == "user"]
    assert [RULE in text for text in said] == [False, True, False, False]
    assert sum(ORDER in json.dumps(message) for message in messages) == 3, "the log, recall and the test that uses it"
    replayed = called("replay", tour.recording.parent, "--window", 32_000, "--jobs", 1)
    assert replayed.returncode == 0, replayed.stderr
    assert "sessions: 1, calls: 300, requests: 300" in replayed.stdout


def test_the_regression_test_has_only_what_recall_found() -> None:
    """Without the fact in the answer of recall, the agent of the story does not know the order."""
    story, session = BugFix(seed=7), Session(window=32_000, wire="openai_chat")
    for step in range(1, 60):
        list(story.write_step(step, str))
    list(story.write_step(283, lambda query: session.history.search(query).text))
    assert ORDER not in str(list(story.write_step(284, str)))


def test_only_the_tour_can_be_saved(tmp_path: Path) -> None:
    done = called("demo", "--model", "--save", tmp_path / "a.jsonl")
    assert done.returncode == 2
    assert "Leave --model or --save out." in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_it_can_be_stopped() -> None:
    """What was played until then is proved."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tidegate.cli.main", "demo"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert "300 steps of a coding agent" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    printed, errors = process.communicate()
    assert process.returncode == 130
    assert "nothing was lost" in printed
    assert errors == ""
