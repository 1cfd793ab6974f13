"""All branches of a followed log as a tree of the host's messages.

A host can know less than the log: the gateway answers some tool calls itself and hides these exchanges from its client.
The log has every message; the note `HiddenCalls` after an answer names its hidden calls:

    log:   user  answer(text 1, hidden call)  result  answer(text 2, call)  result
    host:  user  answer(text 1, text 2, call)                               result

The tree therefore has two kinds of edges: to the next message of the log, and past hidden exchanges to the next message
that the host knows. Both are found by the key of a message.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from tidegate.core.events import (
    BranchStarted,
    Event,
    HostMessageAdded,
    HostNote,
    MessageAdded,
    NoteAdded,
)
from tidegate.core.message_key import hash_message
from tidegate.core.messages import HANDOFF, Call, Message, Part, Text, Thinking, calls_of, compacts_history, result_of
from tidegate.core.notes import ClientNote, HandoffNote, HiddenCall, HiddenCalls, StoredAnswerNote, ToolsSet, is_note
from tidegate.session.shared_timeline import read_client_note, read_handoff_note
from tidegate.session.stored_answers import StoredAnswer, describe_stored_answer

ROOT: Final = ""


class Step(NamedTuple):
    """A message that the host has: its id in the log, and the ids of the hidden messages before it."""

    id: str
    hidden: tuple[str, ...] = ()


class _OpenTurn(NamedTuple):
    """A turn with hidden exchanges. `parent` is the message before it; `seen` are the parts that the host has of it."""

    parent: str
    seen: tuple[Part, ...] = ()
    hidden: tuple[str, ...] = ()
    calls: frozenset[str] = frozenset()


_MAX_HIDDEN_BETWEEN: Final = 8
"""Hidden messages that are passed over when the end of a branch is compared."""


class HostTree:
    """Pure: it is fed the events of the log and answers where a list of keys leaves the known branches.

    `tip` is the last message of the current branch, empty before the first; `tokens` are those of that branch as the
    host has it, before any edit and after what a provider compacted. `hidden` are the messages that the host does not
    know. `has_added_tool`: a tool was once offered that the host does not know. `is_left`: the log went on without the
    host, because someone continued the session with another program. `has_handoff`: a record of the work of other
    clients was put before messages of the host. `speaker` is the client that spoke last, if the log says so.
    `stored_answers` are those that the provider stored, by their ids.
    """

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._children: dict[tuple[str, str], Step] = {}
        self._resume: dict[str, int] = {}  # where to continue after a message: the last event before what followed it
        self._totals: dict[str, int] = {ROOT: 0}  # tokens from the start to a message
        self._parents: dict[str, str] = {}
        self._turns: list[int] = [0]  # the events after which the tip is another
        self._tips: list[str] = [ROOT]
        self.tip, self.tokens = ROOT, 0
        self._last: tuple[str, Message] | None = None  # the newest message and its parent
        self._calls: dict[str, tuple[HiddenCall, ...]] = {}  # by the answer that made them
        self._results: dict[str, dict[str, str]] = {}  # by answer and hidden call: the message with the result
        self._open: dict[str, _OpenTurn] = {}  # by the message after which the turn goes on without the host
        self._continued: dict[str, _OpenTurn] = {}  # by the answer that continues a turn with hidden exchanges
        self._waiting: dict[str, tuple[str, tuple[str, ...]]] = {}  # by hidden result: the answer, results so far
        self.hidden: set[str] = set()
        self.has_added_tool = self.has_hidden_calls = False
        self.is_left = self.has_handoff = False
        self.speaker: ClientNote | None = None
        self.stored_answers: dict[str, StoredAnswer] = {}
        for event in events:
            self.feed(event)

    def feed(self, event: Event) -> None:
        what = event.payload
        if isinstance(what, HostMessageAdded):
            parent = self.tip
            self._resume.setdefault(parent, event.seq - 1)
            self._children.setdefault((parent, what.key), Step(what.message.id))
            is_new_start = what.message.role == "assistant" and compacts_history(
                what.message
            )  # it counts as a part of the fixed part
            self._totals[what.message.id] = 0 if is_new_start else self._totals[parent] + what.tokens
            self._parents[what.message.id] = parent
            if self._calls:
                self._add_past_hidden(parent, what)
            self._last = parent, what.message
            self._move(event.seq, what.message.id)
        elif isinstance(what, MessageAdded) and what.message.kind == HANDOFF:
            self.has_handoff = True
        elif isinstance(what, MessageAdded) and what.message.agent_visible:
            self._resume.setdefault(self.tip, event.seq - 1)
            self.is_left = True
        elif isinstance(what, BranchStarted):
            self._resume.setdefault(self.tip, event.seq - 1)
            self.is_left = False
            self._move(event.seq, self._tips[bisect_right(self._turns, what.edit) - 1])
        elif isinstance(what, NoteAdded):
            self._feed_note(event.seq, what)

    def _feed_note(self, seq: int, what: NoteAdded) -> None:
        if is_note(what, HiddenCalls) and self._last is not None:
            self._hide_calls(*self._last, HiddenCalls.unpack(what).calls)
        elif is_note(what, StoredAnswerNote) and self._last is not None:
            answer = describe_stored_answer(StoredAnswerNote.unpack(what), self._last[1].id)
            self.stored_answers[answer.id] = answer
        elif is_note(what, ClientNote):
            self.speaker = read_client_note(what)
        elif is_note(what, HandoffNote):  # the record itself is the next event
            if read_handoff_note(what).is_return:
                self._resume[self.tip] = seq + 1
            else:  # what begins alike begins without it
                self._resume.setdefault(self.tip, seq - 1)
        elif is_note(what, ToolsSet):
            self.has_added_tool = self.has_added_tool or not isinstance(what, HostNote)

    def _move(self, seq: int, tip: str) -> None:
        self._turns.append(seq)
        self._tips.append(tip)
        self.tip, self.tokens = tip, self._totals[tip]

    def _hide_calls(self, parent: str, answer: Message, calls: tuple[HiddenCall, ...]) -> None:
        """The newest answer has hidden calls. If it has no others, the turn goes on without the host."""
        self._calls[answer.id] = calls
        self.has_hidden_calls = True
        ids = frozenset(call.id for call in calls)
        turn = self._continued.get(answer.id) or _OpenTurn(parent)
        visible = (*turn.seen, *(part for part in answer.parts if not (isinstance(part, Call) and part.id in ids)))
        if all(call.id in ids for call in calls_of(answer)):
            self._open[answer.id] = _OpenTurn(turn.parent, visible, (*turn.hidden, answer.id), ids)
        else:
            self._add_seen_answer(turn, visible, answer.id)

    def _add_seen_answer(self, turn: _OpenTurn, visible: tuple[Part, ...], ident: str) -> None:
        """Add the edge to an answer by what the host got of it, also if the host joins adjacent texts."""
        step = Step(ident, turn.hidden)
        self.hidden.update(turn.hidden)
        for parts in (visible, _join_texts(visible)):
            self._children.setdefault((turn.parent, hash_message(Message("assistant", parts))), step)

    def _add_past_hidden(self, parent: str, event: HostMessageAdded) -> None:
        message, result = event.message, result_of(event.message)
        turn = self._open.get(parent)
        if turn is not None and result is not None and result.call_id in turn.calls:
            self._open[message.id] = turn._replace(hidden=(*turn.hidden, message.id))
        elif turn is not None and message.role == "assistant":
            self._continued[message.id] = turn
            self._add_seen_answer(turn, (*turn.seen, *message.parts), message.id)
        answer, results = self._waiting.get(parent, (parent, ()))
        if (
            turn is None
            and result is not None
            and any(result.call_id == call.id for call in self._calls.get(answer, ()))
        ):
            self._results.setdefault(answer, {})[result.call_id] = message.id
            self._waiting[message.id] = answer, (*results, message.id)
            self.hidden.add(message.id)
        elif results:
            self._children.setdefault((answer, event.key), Step(message.id, results))

    def walk(self, keys: Sequence[str], after: str = ROOT) -> list[Step]:
        """The messages that these keys name after a message, as far as any branch has them.

        Messages that were found once are found again: a step of the tree never changes.
        """
        steps: list[Step] = []
        at = after
        for key in keys:
            step = self._children.get((at, key))
            if step is None:
                break
            at = step.id
            steps.append(step)
        return steps

    def list_path(self, ident: str) -> list[str]:
        """The messages up to this one, as the log has them: with hidden exchanges."""
        path: list[str] = []
        while ident != ROOT:
            path.append(ident)
            ident = self._parents[ident]
        return path[::-1]

    def match(self, keys: Sequence[str], after: str = ROOT) -> list[str]:
        """The ids of the messages that these keys name after a message, as far as any branch has them."""
        return [step.id for step in self.walk(keys, after)]

    def ends_with(self, keys: Sequence[str]) -> bool:
        """Whether the current branch ends with the messages that these keys name, whatever is before them."""
        start = self.tip
        for _ in range(len(keys) + _MAX_HIDDEN_BETWEEN):
            if start == ROOT:
                return False
            start = self._parents[start]
            steps = self.walk(keys, start)
            if len(steps) == len(keys) and steps[-1].id == self.tip:
                return True
        return False

    def find_rewritten(self, keys: Sequence[str]) -> tuple[int, str]:
        """How many messages of a list are known, whose beginning the host rewrote, and the last of them.

        Two adjacent messages, the last that are anywhere in the log, say where the host is. (0, "") if there are none.
        """
        parents: dict[str, list[tuple[str, str]]] = {}
        key_of: dict[str, str] = {}
        for (parent, key), step in self._children.items():
            parents.setdefault(key, []).append((parent, step.id))
            key_of[step.id] = key
        for place in range(len(keys) - 1, 0, -1):
            for parent, ident in parents.get(keys[place], ()):
                if key_of.get(parent) == keys[place - 1]:
                    return place + 1, ident
        return 0, ""

    def is_last(self, ident: str) -> bool:
        """Whether nothing that a host said follows a message, on any branch."""
        return all(parent != ident for parent, _ in self._children)

    def is_newest_answer_after(self, ident: str) -> bool:
        """Whether the current branch ends with an answer that was added last and follows this message."""
        parent, newest = self._last or ("", None)
        return newest is not None and newest.id == self.tip and newest.role == "assistant" and parent == ident

    def list_after(self, ident: str) -> list[str] | None:
        """The messages of the current branch after this one, the newest first; None if it is on another branch."""
        path: list[str] = []
        at = self.tip
        while at != ident:
            if at == ROOT:
                return None
            path.append(at)
            at = self._parents[at]
        return path

    def hidden_calls(self, ident: str) -> tuple[HiddenCall, ...]:
        """The calls of an answer that the host does not know."""
        return self._calls.get(ident, ())

    def hidden_result(self, ident: str, call_id: str) -> str:
        """The message with the result of a hidden call, made for an answer with other calls; empty if there is none."""
        return self._results.get(ident, {}).get(call_id, "")

    def resume_seq(self, ident: str) -> int:
        """The event after which a new branch continues that follows this message."""
        return self._turns[-1] if ident == self.tip and ident not in self._resume else self._resume[ident]


def _join_texts(parts: Sequence[Part]) -> tuple[Part, ...]:
    """The parts as a host has them for which an answer is one text; thinking does not count."""
    joined_parts: list[Part] = []
    for part in parts:
        if isinstance(part, Thinking):
            continue
        if isinstance(part, Text) and joined_parts and isinstance(joined_parts[-1], Text):
            joined_parts[-1] = Text(joined_parts[-1].text + part.text)
        else:
            joined_parts.append(part)
    return tuple(joined_parts)
