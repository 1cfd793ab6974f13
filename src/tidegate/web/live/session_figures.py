"""The sums of one session for a row of the list: what it used, what it cost, and what it would have cost unedited.

The reader keeps sums, not messages, so it is cheap enough for every session of a list. It is fed the events of a log
in order, and later only those that were added since.
"""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from tidegate.core.events import BranchStarted, Event, MessageAdded, NoteAdded, UsageReported, ViewEdited
from tidegate.core.messages import TOOL_RESULT, Message, calls_of, result_of
from tidegate.core.notes import HiddenCalls, ModelNote, ParentSession, SideCost, SystemSet, ToolsSet, is_note, read_note
from tidegate.core.tokens.counting import REQUEST_OVERHEAD
from tidegate.core.usage import Usage
from tidegate.models.catalog import ModelInfo, compute_model_cost, find_model
from tidegate.session.request import parse_model_note
from tidegate.web.request_history import request_usage

FindWindow = Callable[[ModelNote], int]
"""The window of a session by its note about the model; 0 if it is not known."""
CACHE_SECONDS: Final = 300.0
"""How long a provider keeps a prompt in its cache after its last use."""


class SessionFigures(msgspec.Struct, frozen=True):
    """Sums over a log. `dollars_without` is an estimate: the same requests with the whole history (docs/gateway.md).

    `filled` is the input of the last request. `too_long` counts the requests that would not have fit the window with
    the whole history. `unpriced_tokens` belong to models whose prices are not known.
    """

    model: str = ""
    dialect: str = ""
    window: int = 0
    filled: int = 0
    requests: int = 0
    compactions: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    dollars: float = 0.0
    dollars_without: float = 0.0
    unpriced_tokens: int = 0
    too_long: int = 0
    parent: str = ""


class ClientMessages:
    """Which messages of a log the client has: not notes of the engine, and not the exchanges that it does not see."""

    def __init__(self) -> None:
        self._hidden_calls: set[str] = set()
        self._last: Message | None = None

    def feed(self, event: Event) -> int:
        """1 if this event is a message of the client, -1 if the last one turns out to be hidden, else 0."""
        what = event.payload
        if isinstance(what, MessageAdded):
            message, result = what.message, result_of(what.message)
            if not message.agent_visible or message.kind not in ("", TOOL_RESULT):
                return 0
            self._last = message
            return 0 if result is not None and result.call_id in self._hidden_calls else 1
        if is_note(what, HiddenCalls) and self._last is not None:
            ids = {call.id for call in HiddenCalls.unpack(what).calls}
            self._hidden_calls |= ids
            return -1 if all(call.id in ids for call in calls_of(self._last)) else 0
        return 0


class WholeHistory:
    """The tokens of everything the client said so far, by our count, at each event of the log."""

    def __init__(self) -> None:
        self._messages = ClientMessages()
        self._seqs = array("q", [0])
        self._sums = array("q", [0])
        self._last_tokens = 0
        self._system_tokens = self._tools_tokens = 0

    def feed(self, event: Event) -> None:
        what, change = event.payload, self._messages.feed(event)
        if isinstance(what, MessageAdded) and change:
            self._last_tokens = what.tokens
            self._add(event.seq, self._sums[-1] + what.tokens)
        elif change < 0:
            self._add(event.seq, self._sums[-1] - self._last_tokens)
        elif isinstance(what, BranchStarted):
            self._add(event.seq, self._sum_at(what.edit))
        elif is_note(what, SystemSet):
            self._system_tokens = what.tokens
        elif is_note(what, ToolsSet):
            self._tools_tokens = what.tokens

    def _add(self, seq: int, tokens: int) -> None:
        self._seqs.append(seq)
        self._sums.append(tokens)

    def _sum_at(self, seq: int) -> int:
        return self._sums[bisect_right(self._seqs, seq) - 1]

    def count_request(self, head: int) -> int:
        """Tokens of a request with the whole history, made when the log ended with `head`."""
        return REQUEST_OVERHEAD + self._system_tokens + self._tools_tokens + self._sum_at(head)


class FiguresReader:
    """Adds up the figures of a log. Feed it every event once, in order."""

    def __init__(self, find_window: FindWindow, prices: Mapping[str, ModelInfo] | None = None) -> None:
        self.head = 0
        self.figures = SessionFigures()
        self._find_window = find_window
        self._prices = prices
        self._history = WholeHistory()
        self._models: dict[str, ModelInfo | None] = {}
        self._edits: set[int] = set()
        self._last_whole = 0
        self._last_time = 0.0
        self._writes_cache = False

    def feed(self, event: Event) -> None:
        self.head = event.seq
        self._history.feed(event)
        what = event.payload
        if isinstance(what, UsageReported):
            self._add_request(event, what)
        elif isinstance(what, ViewEdited):
            if what.tokens_after < what.tokens_before:
                self._edits.add(event.seq)
                self._change(compactions=len(self._edits))
        elif isinstance(what, NoteAdded):
            self._read_note(what)

    def _read_note(self, note: NoteAdded) -> None:
        if is_note(note, ModelNote):
            read = parse_model_note(note.text)
            self._change(model=read.model, dialect=read.wire, window=self._find_window(read))
        elif (parent := read_note(note, ParentSession)) is not None:
            self._change(parent=parent.text)
        elif (side := read_note(note, SideCost)) is not None:
            self._change(**self._add_cost(side.usage, side.usage, side.model))

    def _change(self, **fields: object) -> None:
        self.figures = msgspec.structs.replace(self.figures, **fields)

    def _add_request(self, event: Event, report: UsageReported) -> None:
        usage = request_usage(report)
        whole, is_edited = self._measure_whole(report, usage)
        without = self._usage_without(event.time, usage, whole) if is_edited else usage
        now = self.figures
        self._change(
            model=report.model or now.model,
            filled=usage.input_tokens,
            requests=now.requests + 1,
            input_tokens=now.input_tokens + usage.input_tokens,
            cached_tokens=now.cached_tokens + usage.cache_read,
            output_tokens=now.output_tokens + usage.output_tokens,
            too_long=now.too_long + (0 < now.window < whole),
            **self._add_cost(usage, without, report.model),
        )
        self._last_whole, self._last_time = whole, event.time
        self._writes_cache = self._writes_cache or usage.cache_write > 0

    def _measure_whole(self, report: UsageReported, usage: Usage) -> tuple[int, bool]:
        """Provider's tokens of the request with the whole history, and whether the view was shorter than that."""
        request = self._history.count_request(report.log_head)
        if not report.counted_tokens or request <= report.counted_tokens:
            return usage.input_tokens, False
        return round(request * usage.input_tokens / report.counted_tokens), True

    def _usage_without(self, time: float, usage: Usage, whole: int) -> Usage:
        """The usage of a request with the whole history. Its beginning is in the cache if this session uses one."""
        is_cached = self.figures.cached_tokens > 0 or usage.cache_read > 0
        is_warm = is_cached and time - self._last_time <= CACHE_SECONDS
        read = min(self._last_whole, whole) if is_warm else 0
        cache_write = whole - read if self._writes_cache or usage.cache_write else 0
        return Usage(whole, usage.output_tokens, read, cache_write)

    def _add_cost(self, usage: Usage, without: Usage, model: str) -> dict[str, float]:
        """The fields of the figures that the cost of a call changes, with their new values."""
        if model not in self._models:
            self._models[model] = find_model(model, self._prices)
        info, now = self._models[model], self.figures
        cost = compute_model_cost(usage, info)
        more = cost if without is usage else compute_model_cost(without, info)
        tokens = 0 if cost else usage.input_tokens + usage.output_tokens
        return {
            "dollars": now.dollars + (cost.total if cost else 0.0),
            "dollars_without": now.dollars_without + (more.total if more else 0.0),
            "unpriced_tokens": now.unpriced_tokens + tokens,
        }
