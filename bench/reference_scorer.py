"""Compare the lab's measures with those of a reference scorer, on the same requests.

    python bench/reference_scorer.py SCORER RECORDINGS [--window N] [--policy NAME ...] [--only PART] [--most N]

SCORER is the folder with the reference programs `deep.py` and `score.py`, RECORDINGS a folder of transcripts. Every
session that is longer than 1.5 windows is replayed under each policy, and both score each request. Each figure must be
equal to the last digit; one that is not is printed, and the exit status is 1.
"""

import argparse
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from tidegate.core.tokens.counting import CharsPerToken
from tidegate.lab.importers import read_recordings
from tidegate.lab.replay.recording_file import RecordedLine
from tidegate.lab.replay.session_replay import ReplaySetup, replay_session
from tidegate.lab.scoring.contender_request import ContenderRequest
from tidegate.lab.scoring.input_bill import InputBill
from tidegate.lab.scoring.request_scorer import RequestScorer, ScoringTask
from tidegate.lab.scoring.request_size import UnitCounter
from tidegate.lab.scoring.signals import extract_signals
from tidegate.presets import load

RULER = UnitCounter(CharsPerToken(4))
MIN_WINDOWS = 1.5


def load_reference(folder: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("deep", folder / "deep.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Comparison:
    """One session under one policy, scored by both."""

    def __init__(self, deep: Any, transcript: Any, messages: list[dict[str, Any]], window: int) -> None:
        self.names = [name for signal in deep.SIGNALS for name in signal.names]
        self._theirs = deep.Tally(deep.Session(transcript, window, deep.SIGNALS))
        self._signals = extract_signals(messages, RULER)
        self._mine = RequestScorer(
            ScoringTask(self._signals, messages, RULER, window, transcript.common), InputBill(())
        )

    def add_request(self, request: ContenderRequest) -> None:
        self._mine.add_request(request)
        self._theirs.add(request.message_index, None if request.error else list(request.messages))

    def find_differences(self) -> list[str]:
        theirs = self._theirs.result(self.names)
        mine = self._mine.finish()
        values = mine.compute_measures()
        shares = {name: getattr(mine.texts, name) for name in self.names}
        return [
            f"{name}: {values[name]} ({shares[name].kept} of {shares[name].total}),"
            f" reference {theirs[name]} ({theirs['hit_' + name]} of {theirs['n_' + name]})"
            for name in self.names
            if (values[name], shares[name].kept, shares[name].total)
            != (theirs[name], theirs["hit_" + name], theirs["n_" + name])
        ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scorer", type=Path)
    parser.add_argument("recordings", type=Path)
    parser.add_argument("--window", type=int, default=32_000)
    parser.add_argument("--policy", nargs="+", default=["default"])
    parser.add_argument("--only", default="", help="sessions whose file name contains this")
    parser.add_argument("--most", type=int, default=10_000, help="at most so many sessions")
    options = parser.parse_args()
    deep: Any = load_reference(options.scorer)
    common = frozenset(json.loads((options.scorer / "common.json").read_text("utf-8")))
    compared = wrong = 0
    for path in sorted(options.recordings.glob("*.jsonl*")):
        if options.only not in path.name or compared >= options.most:
            continue
        transcript = deep.S.Transcript(str(path), common)
        if transcript.tokens <= MIN_WINDOWS * options.window:
            continue
        (recording,) = read_recordings(path)
        messages: list[dict[str, Any]] = list(recording.messages)
        compared += 1
        for policy in options.policy:
            both = Comparison(deep, transcript, messages, options.window)
            lines = [RecordedLine(at, message) for at, message in enumerate(messages)]
            setup = ReplaySetup(load(policy), options.window, "chars/4")
            replay_session(path.name, lines, setup, on_request=both.add_request)
            differences = both.find_differences()
            wrong += bool(differences)
            for line in differences:
                print(f"{path.name}, {policy}: {line}")
    print(f"{compared} sessions under {len(options.policy)} policies: {wrong} with a difference")
    return 1 if wrong or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
