"""Measure for each preset which share of what leaves the view its own rules remove, and which the guard.

    python bench/guard_share.py [--turns N] [--recordings FILE_OR_FOLDER ...] [PRESET ...]

The guard is the last step under every policy. A preset whose work it does is not at work. Sessions of several texts and
windows are played without a provider, or recordings; a short text stands for every summary. Each line has the share of
the removed tokens that the guard removed, how often it acted, and how often the preset's own rules did. `large` counts
the acts of the guard when the newest request and the newest group of messages, which no rule may drop, were larger than
the room, alone or together with the summary and the ledger: only the guard shortens these.
"""

import argparse
import warnings
from collections import Counter
from itertools import count, product
from pathlib import Path
from typing import Any, NamedTuple

from tidegate import Session, SummaryRequest, load
from tidegate.core.errors import UnknownWindowWarning
from tidegate.core.events import ViewEdited
from tidegate.core.turns import split_groups
from tidegate.lab.replay.recording_file import find_chat_recordings, read_chat_recording
from tidegate.presets import preset_names

TEXTS = {
    "English": "The valve opens at four bar and the pump follows after nine seconds unless the sensor says otherwise. ",
    "code": 'def open_valve(bar: float) -> bool: return bar > 4.0  # {"id": "ord-5512", "path": "/srv/a.py"}\n',
    "Chinese": "阀门在四巴时打开，水泵在九秒后启动，除非传感器另有指示。",
}
WINDOWS = {"gpt-4o": 128_000, "a window of 32,768": 32_768, "a window of 8,192": 8_192, "an unknown window": None}
SHAPES = ("chat", "tool loops")
_SIZES = (0.002, 0.01, 0.03, 0.006)  # of the window, for one text


class GuardShare(NamedTuple):
    """Tokens removed by the preset's rules and by the guard, and how often each acted."""

    own_tokens: int
    guard_tokens: int
    acts: Counter[str]
    large: int = 0

    @property
    def share(self) -> float:
        return self.guard_tokens / max(1, self.own_tokens + self.guard_tokens)


def play_session(preset: str, text: str, window: int | None, shape: str, turns: int) -> GuardShare:
    """Play a session under a preset and add up what left the view."""
    times = count(0.0, 10.0)  # seconds: every event takes a while, as with a model
    session = Session(
        "gpt-4o" if window == 128_000 else "",
        policy=load(preset),
        window=window,
        count="estimate",
        clock=lambda: next(times),
    )
    size = (window or 32_768) * 3  # characters

    def write(number: int, part: int) -> str:
        length = int(size * _SIZES[(number + part) % len(_SIZES)])
        return f"{number}.{part}: " + (text * (length // len(text) + 1))[: max(20, length)]

    for number in range(turns):
        session.add({"role": "user", "content": write(number, 0)})
        for step in range(8 if shape == "tool loops" else 0):
            session.prepare(_summarize)
            ident = f"c{number}.{step}"
            call = {"id": ident, "type": "function", "function": {"name": "read", "arguments": '{"path": "a.py"}'}}
            result = {"role": "tool", "tool_call_id": ident, "content": write(number, step)}
            session.add({"role": "assistant", "content": None, "tool_calls": [call]}, result)
        session.prepare(_summarize)
        session.add({"role": "assistant", "content": write(number, 9)})
    return add_up(session)


def _summarize(request: SummaryRequest) -> str:
    return f"- user said: the plant is to be restarted\n- agent concluded: {len(request.messages)} messages are done\n"


def add_up(session: Session) -> GuardShare:
    """Add up the edits of a session."""
    freed: Counter[bool] = Counter()
    acts: Counter[str] = Counter()
    for event in session.log.read():
        edited: Any = event.payload
        if isinstance(edited, ViewEdited) and edited.stage != "repair":
            freed[edited.stage == "guard"] += edited.tokens_before - edited.tokens_after
            acts[edited.rule or edited.stage] += 1
    return GuardShare(freed[False], freed[True], acts)


def play_recording(preset: str, path: Path, window: int) -> GuardShare:
    """Play a recording under a preset and add up what left the view."""
    messages = [line.message for line in read_chat_recording(path)]
    system = [each for each in messages if each["role"] == "system"][:1]
    times = count(0.0, 10.0)
    session = Session(
        system=str(system[0]["content"])[: window // 2] if system else "",
        policy=load(preset),
        window=window,
        count="estimate",
        clock=lambda: next(times),
    )
    large = 0
    for message in messages:
        if message["role"] == "system":
            continue
        if message["role"] == "assistant":
            large += int(prepare_request(session))
        session.add(message)
    return add_up(session)._replace(large=large)


def prepare_request(session: Session) -> bool:
    """Prepare a request. Return whether the guard acted because what has to stay is larger than the room."""
    groups = split_groups(session.view)
    least = {id(each): each for each in groups[-1:]}
    least |= {id(each): each for each in groups if session.view.newest_request in each.ids}
    head = session.log.head
    session.prepare(_summarize)
    later = [event.payload for event in session.log.read(head + 1)]
    notes = sum(item.tokens for item in session.view.items if item.message.id.startswith("e"))  # inserted by an edit
    is_large = sum(each.tokens for each in least.values()) + notes > session.budget.room
    return is_large and any(isinstance(each, ViewEdited) and each.stage == "guard" for each in later)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("presets", nargs="*", default=preset_names(), metavar="PRESET")
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--recordings", nargs="+", type=Path, default=[], metavar="FILE_OR_FOLDER")
    options = parser.parse_args()
    warnings.simplefilter("ignore", UnknownWindowWarning)
    recordings = find_chat_recordings(options.recordings) if options.recordings else []
    for preset in options.presets if recordings else ():
        for size in (128_000, 32_768, 8_192):
            parts = [play_recording(preset, path, size) for path in recordings]
            acts = sum((each.acts for each in parts), Counter[str]())
            total = GuardShare(sum(each.own_tokens for each in parts), sum(each.guard_tokens for each in parts), acts)
            large = sum(each.large for each in parts)
            print(describe(preset, f"{len(parts)} recordings, a window of {size:,}", total, f", {large} of them large"))
    for preset in options.presets if not recordings else ():
        for (text, words), (window, size), shape in product(TEXTS.items(), WINDOWS.items(), SHAPES):
            share = play_session(preset, words, size, shape, options.turns)
            print(describe(preset, f"{text:8} {window:18} {shape:10}", share))


def describe(preset: str, case: str, share: GuardShare, large: str = "") -> str:
    acts = ", ".join(f"{name} {number}{large if name == 'guard' else ''}" for name, number in share.acts.most_common())
    return f"{preset:9} {case} guard {share.share:4.0%} of the tokens; {acts or '-'}"


if __name__ == "__main__":
    main()
