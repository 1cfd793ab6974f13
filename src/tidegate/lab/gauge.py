"""Requests held against what the session needed: fed one request after the other, it ends with the figures of a cell.

A cell is one recording under one policy in one window; what the figures mean is in `measures.py`. Most messages of a
request stood in the one before, so whatever is known of a message is kept by its content.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

from tidegate.lab.asked import Asked
from tidegate.lab.bill import Bill
from tidegate.lab.figures import READ, WRITE, Figures, Lost, Share, Unmanaged
from tidegate.lab.occurrences import holds
from tidegate.lab.recovery import Recovery, printed
from tidegate.lab.signals import ANCHOR, Need, Signals, calls_of, shown, text_of
from tidegate.lab.sizes import Ruler
from tidegate.lab.validity import Judge

Json = dict[str, Any]
Recall = Callable[[str], str]

MOST_LOST: Final = 40
_NO_NEEDS: Final[tuple[Need, ...]] = ()


class Task(NamedTuple):
    """What the requests are held against. `common` are names that say nothing of memory."""

    signals: Signals
    messages: Sequence[Json]
    ruler: Ruler
    window: int
    common: frozenset[str] = frozenset()


class _Seen(NamedTuple):
    """What is known of one message of a request: its size, its text, pieces of the user's words, recall calls."""

    units: int
    page: str
    pieces: frozenset[int]
    calls: tuple[str, ...]


class _Needs(NamedTuple):
    """By the place of the assistant message."""

    references: dict[int, list[Need]]
    strict_references: dict[int, list[Need]]
    anchors: dict[int, list[Need]]
    strict_anchors: dict[int, list[Need]]


def _by_place(needs: Sequence[Need], left_out: frozenset[str] = frozenset()) -> dict[int, list[Need]]:
    found: dict[int, list[Need]] = {}
    for need in needs:
        if need.name not in left_out:
            found.setdefault(need.at, []).append(need)
    return found


class Gauge:
    """`add` every request in order, then take `figures()`."""

    def __init__(self, task: Task, bill: Bill) -> None:
        signals = task.signals
        self._signals = signals
        self._ruler = task.ruler
        self._bill = bill
        self._needs = _Needs(
            _by_place(signals.references, task.common),
            _by_place(signals.strict_references, task.common),
            _by_place(signals.anchors),
            _by_place(signals.strict_anchors),
        )
        self._limit = task.ruler.per * task.window
        self._half = task.window / 2
        by_agent = {text_of(message) for message in task.messages if message["role"] in ("assistant", "tool")}
        self._said = {shown(message) for message in task.messages}
        self._by_agent = by_agent - {text_of(message) for message in task.messages if message["role"] == "user"}
        self._known: dict[object, _Seen] = {}
        self._before: list[Json] = []
        self._seen: list[_Seen] = []
        self._asked_at = -1
        self._judge = Judge(task.messages)
        self._recovery = Recovery()
        tokens = signals.history[-1] / task.ruler.per
        self._figures = Figures(tokens, len(signals.asks))

    def add(self, asked: Asked) -> None:
        figures, at = self._figures, asked.at
        beyond = self._signals.history[at] > self._limit
        figures.requests += 1
        figures.beyond += beyond
        figures.mended += asked.mended
        figures.pause = max(figures.pause, asked.cpu)
        figures.at.append(at)
        for spent in asked.summaries:
            figures.summaries += 1
            self._bill.summary(spent.tokens_in, spent.tokens_out)
        if beyond:
            self._expect(at)
        if asked.error:
            figures.failed += 1
            figures.failed_beyond += beyond
            figures.sizes.append(None)
            figures.read.append(None)
            return
        units = self._weigh(at, asked.messages)
        if beyond:
            figures.held += units / self._ruler.per
            self._look(at, asked.recall)

    def _expect(self, at: int) -> None:
        """Count what this request ought to hold, whether it could be made or not."""
        figures, needs, half = self._figures, self._needs, self._half
        for wanted, everything, far in (
            (needs.references, figures.all_references, figures.far),
            (needs.strict_references, None, figures.far_strict),
            (needs.anchors, figures.all_anchors, figures.anchors),
            (needs.strict_anchors, None, figures.anchors_strict),
        ):
            here = wanted.get(at, _NO_NEEDS)
            far.of += sum(need.back > half for need in here)
            if everything is not None:
                everything.of += len(here)

    # --- how large, how much of it is new, is it valid --------------------------------------------------------------

    def _weigh(self, at: int, messages: Sequence[Json]) -> int:
        figures, before, first = self._figures, self._before, self._asked_at < 0
        same = 0
        for old, new in zip(before, messages, strict=False):
            if old is not new and old != new:
                break
            same += 1
        moved = {id(old): seen for old, seen in zip(before[same:], self._seen[same:], strict=True)}
        seen = self._seen[:same] + [moved.get(id(new)) or self._see(new) for new in messages[same:]]
        shared = sum(each.units for each in seen[:same])
        units = sum(each.units for each in seen) + self._ruler.once
        edited = same < len(before)
        verdict = self._judge.judge(at, messages, 0 if edited else same)
        figures.invalid += bool(verdict.rules)
        figures.broken_chat += verdict.chat
        figures.broken_turns += verdict.turns
        for rule in verdict.rules:
            figures.rules[rule] = figures.rules.get(rule, 0) + 1
        self._tally(units, shared)
        if not first:
            history = self._signals.history
            figures.later += 1
            figures.sent_later += units / self._ruler.per
            figures.edited += edited
            figures.edited_at += [at] * edited
            new_units = history[at] - history[self._asked_at]
            figures.rewritten += max(0, units - shared - new_units) / self._ruler.per
        self._bill.request(at, units / self._ruler.per, shared / self._ruler.per)
        self._before, self._seen, self._asked_at = list(messages), seen, at
        return units

    def _tally(self, units: int, shared: int) -> None:
        figures, per = self._figures, self._ruler.per
        figures.largest = max(figures.largest, units / per)
        figures.over += units > self._limit
        figures.sent += units / per
        figures.from_cache += shared / per
        figures.sizes.append(round(units / per))
        figures.read.append(round(shared / per))

    def _see(self, message: Json) -> _Seen:
        content = message.get("content")
        calls = tuple((call["name"], str(call["arguments"])) for call in calls_of(message))
        key = (content, calls) if content is None or isinstance(content, str) else None
        if key is not None and key in self._known:
            return self._known[key]
        text = text_of(message)
        page = shown(message) if calls else text
        pieces: frozenset[int] = frozenset()
        if text and text not in self._by_agent:
            pieces = frozenset(number for number, piece in enumerate(self._signals.pieces) if piece in text)
        seen = _Seen(self._ruler.units(message), page, pieces, () if page in self._said else printed(page))
        if key is not None:
            self._known[key] = seen
        return seen

    # --- what is still there ----------------------------------------------------------------------------------------

    def _look(self, at: int, recall: Recall | None) -> None:
        figures, half = self._figures, self._half
        references, strict, anchors, strict_anchors = (wanted.get(at, _NO_NEEDS) for wanted in self._needs)
        if references or strict or anchors or strict_anchors:
            text = "\x01".join([seen.page for seen in self._seen])
            missing = [*self._missing(references, text, figures.all_references, figures.far)]
            missing += self._missing(anchors, text, figures.all_anchors, figures.anchors)
            self._note(missing, recall)
            figures.far_strict.kept += sum(need.back > half and holds(text, need.text) for need in strict)
            figures.anchors_strict.kept += sum(need.back > half and need.text in text for need in strict_anchors)
        self._look_for_words(at)

    def _missing(self, needs: Sequence[Need], text: str, everything: Share, far: Share) -> list[Need]:
        missing = []
        for need in needs:
            if need.text in text if need.kind == ANCHOR else holds(text, need.text):
                everything.kept += 1
                far.kept += need.back > self._half
            else:
                missing.append(need)
        return missing

    def _note(self, missing: Sequence[Need], recall: Recall | None) -> None:
        figures = self._figures
        calls = list(dict.fromkeys(chain.from_iterable(seen.calls for seen in self._seen))) if missing else []
        for need in missing:
            back = None if recall is None else self._recovery.gives(need, calls, recall)
            if back is not None:
                figures.recoverable.of += 1
                figures.recoverable.kept += back
            if need.back <= self._half:
                continue
            if len(figures.lost) < MOST_LOST:
                measure = "anchors" if need.kind == ANCHOR else "far"
                figures.lost.append(Lost(need.at, measure, need.text[:200], need.seen, back))
            else:
                figures.lost_more += 1

    def _look_for_words(self, at: int) -> None:
        have: set[int] = set()
        for seen in self._seen:
            if seen.pieces:
                have |= seen.pieces
        kept = total = 0
        newest = True
        for words in self._signals.words:
            if words.at >= at:
                break
            lengths = [length for piece, length in zip(words.pieces, words.lengths, strict=True) if piece in have]
            kept += sum(lengths)
            total += sum(words.lengths)
            newest = len(lengths) == len(words.lengths)
        self._figures.user_words += kept / total if total else 1.0
        self._figures.newest_whole += newest

    def figures(self) -> Figures:
        figures = self._figures
        figures.failed += figures.asks - figures.requests
        figures.dollars, figures.expired = self._bill.dollars, self._bill.expired
        return figures


def unmanaged(task: Task, bill: Bill) -> Unmanaged:
    """What the session would have cost with its whole history in every request."""
    cost = tokens = before = 0.0
    for at in task.signals.asks:
        size = task.signals.history[at] / task.ruler.per
        cost += before * READ + (size - before) * WRITE
        tokens += size
        bill.request(at, size, before)
        before = size
    return Unmanaged(cost, tokens, bill.dollars)
