"""What was kept of a chat: what its face saw while it went on, against what the folder holds when it is opened anew."""

import hashlib
from pathlib import Path
from textwrap import shorten
from typing import Final, NamedTuple

import msgspec

from tidegate.agent.loop import Asked
from tidegate.apps.chat.backstage import Happened, Logged, News, Opened, Over
from tidegate.apps.proof import Proof
from tidegate.core.events import Edited, Said
from tidegate.core.messages import Message, text_of
from tidegate.keep.data import DataFolder
from tidegate.models.provider import Delta, Reply
from tidegate.session.live import Live
from tidegate.session.past import request_at, requests_of

LONGEST: Final = 100


class Told(NamedTuple):
    holds: bool
    text: str


class Seen:
    """What was seen of the session `name`: its messages as they were said, its answers as they came, its requests."""

    def __init__(self, name: str, window: int) -> None:
        self.name = name
        self.window = window
        self.said: list[Message] = []
        self.answers: list[str] = []
        self.requests: list[str] = []
        self.largest = 0
        self._here = False
        self._text = ""
        self._asked = ""

    def take(self, news: News) -> None:
        match news:
            case Opened(name=name):
                self._here = name == self.name
            case Logged(event) if self._here and isinstance(event.what, Said):
                self.said.append(event.what.message)
            case Happened(what) if self._here:
                self._happened(what)
            case Over():
                self._answered()

    def _happened(self, what: object) -> None:
        match what:
            case Asked(request=request):
                self._asked = hashlib.sha256(request.to_bytes()).hexdigest()
                self.largest = max(self.largest, request.tokens)
                self._text = ""
            case Delta(kind="text", text=text):
                self._text += text
            case Reply():
                self.requests.append(self._asked)
                self._answered()

    def _answered(self) -> None:
        """Also what was only begun, when it was stopped."""
        if self._text.strip():
            self.answers.append(self._text)
        self._text = ""


def summary(seen: Seen, folder: Path) -> Told:
    data = DataFolder(folder, secrets=[])
    try:
        if not seen.said:
            return Told(True, "Nothing was said, so nothing is kept.")
        with data.look(seen.name) as kept:
            proofs = [
                _fitted(seen),
                _kept(seen, kept),
                _streamed(seen, kept),
                _recalled(seen, kept),
                _again(seen, kept),
            ]
            compactions = _compactions(kept)
    finally:
        data.close()
    holds = all(proof.holds for proof in proofs)
    lines = ["\nnothing was lost" if holds else "\nNOT PROVED"]
    lines += [f"  {'yes' if proof.holds else 'NO '}  {proof.claim}" for proof in proofs]
    return Told(holds, "\n".join([*compactions, *lines]))


def _compactions(kept: Live) -> list[str]:
    edits = [event.what for event in kept.log.read() if isinstance(event.what, Edited)]
    found = [
        f"  {each.rule or each.stage}: {each.before:,} -> {each.after:,} tokens; {shorten(each.why, LONGEST)}"
        for each in edits
    ]
    return [f"\nwhat was done to the window: {len(edits)} {'compaction' if len(edits) == 1 else 'compactions'}", *found]


def _fitted(seen: Seen) -> Proof:
    claim = f"{len(seen.requests)} requests, the largest {seen.largest:,} tokens in a window of {seen.window:,}"
    return Proof(seen.largest <= seen.window, claim)


def _messages(kept: Live) -> list[Message]:
    return [event.what.message for event in kept.log.read() if isinstance(event.what, Said)]


def _kept(seen: Seen, kept: Live) -> Proof:
    found = _messages(kept)
    whole = hashlib.sha256(msgspec.json.encode(found)).hexdigest()[:12]
    claim = f"{len(seen.said)} messages said, {len(found)} in the log on disk, byte for byte (sha256 {whole}...)"
    return Proof(msgspec.json.encode(found) == msgspec.json.encode(seen.said), claim)


def _streamed(seen: Seen, kept: Live) -> Proof:
    """One that was stopped is kept with a mark behind it."""
    found = [text_of(each) for each in _messages(kept) if each.role == "assistant" and text_of(each).strip()]
    same = sum(text.startswith(shown) for text, shown in zip(found, seen.answers, strict=False))
    claim = f"{len(seen.answers)} answers came, {same} in the log as they came"
    return Proof(len(seen.answers) == len(found) == same, claim)


def _recalled(seen: Seen, kept: Live) -> Proof:
    shown = {item.message.id: item.message for item in kept.view.items}
    gone = [each for each in seen.said if shown.get(each.id) != each]
    back = [each for each in gone if kept.recall(each.id) == each]
    claim = f"{len(gone)} messages left the window or were cut in it; {len(back)} come back by their ids, whole"
    return Proof(len(gone) == len(back), claim)


def _again(seen: Seen, kept: Live) -> Proof:
    made = [hashlib.sha256(request_at(kept.log, sent.head).to_bytes()).hexdigest() for sent in requests_of(kept.log)]
    same = sum(one == other for one, other in zip(made, seen.requests, strict=False))
    claim = f"{same} of {len(seen.requests)} requests made again from the log alone have the same bytes"
    return Proof(len(made) == len(seen.requests) == same, claim)
