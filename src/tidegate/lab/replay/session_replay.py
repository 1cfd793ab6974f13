"""Replay a recorded session as if each assistant message had to be requested again.

Before each recorded assistant message the policy prepares a request from everything before it; then the recorded answer
and its results are added. Nothing is sent. Each request is measured and validated here, independently of the engine:
does it fit, is it valid, does it hold the newest user message, how much of it is a prefix of the previous request.

Three inputs of a live session are fixed, so that a replay gives the same figures everywhere:

- time: the clock starts at 0 and 30 seconds pass before every assistant message;
- summaries: the deterministic summarizer writes them;
- state notes: recorded answers of a model, or none (`recorded_notes.py`). A note is stored at once.

Leading system messages are the fixed part, the system prompt; later ones are ordinary messages.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from time import process_time
from typing import Literal

import msgspec

from tidegate.core.digest.writer import write_digest
from tidegate.core.errors import BadInput, BadRequest, TooSmall
from tidegate.core.messages import Message, Text, Tool
from tidegate.core.outcome import SummaryRequest
from tidegate.core.policy.policy import Policy
from tidegate.lab.replay.recorded_notes import AnswerNote, ReplayNotes
from tidegate.lab.replay.recording_file import RecordedLine
from tidegate.lab.replay.replay_report import ReplayReport
from tidegate.lab.scoring.contender_request import ContenderRequest, SummaryUsage
from tidegate.lab.scoring.request_size import RequestSizer
from tidegate.models.catalog import ModelInfo
from tidegate.models.pricing import TokenRates
from tidegate.session.explanation import describe_edits
from tidegate.session.reports.recall_stats import count_recalls
from tidegate.session.session import Session
from tidegate.wire.request import RequestRenderer
from tidegate.wire.validation.faults import RequestFault

SECONDS_PER_CALL = 30.0
_UNLIMITED_CHARS = 10**9
"""Characters: what is recalled page by page is asked for in one piece."""
MAIN_DIALECT = "openai_chat"
"""The dialect that requests are weighed and written in, so that figures can be compared with other tools'."""

_Json = dict[str, object]


class ReplaySetup(msgspec.Struct, frozen=True):
    """The settings of a replay. Each request is validated in every one of the `dialects`.

    `tools` are definitions that take room in every request, as those of a live client do; recordings have none.
    Requests are rendered and validated incrementally. Every `fresh_interval` calls (0: never) they are also rendered
    and validated from scratch and must come out the same. With `explain` the report describes every edit. `rates` are
    the prices of the model, which decide when a sweep pays; without them only the window does.
    """

    policy: Policy
    window: int
    count: str = "exact"
    dialects: tuple[str, ...] = (MAIN_DIALECT,)
    fresh_interval: int = 0
    explain: bool = False
    tools: tuple[Tool, ...] = ()
    rates: tuple[TokenRates, ...] = ()


def replay_session(
    name: str,
    lines: Iterable[RecordedLine],
    setup: ReplaySetup,
    *,
    on_request: Callable[[ContenderRequest], None] | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    answer_note: AnswerNote | None = None,
) -> ReplayReport:
    """Replay one recording. `on_request` gets each request; when `should_stop` is true it raises KeyboardInterrupt.

    `answer_note` gives the answers of a model that is asked for state notes.
    """
    stream = iter(lines)
    system, first = _read_system_prompt(stream)
    run = _ReplayRun(name, system, setup, on_request, answer_note)
    for at, line in enumerate(chain(first, stream), len(system)):
        if line.message.get("role") == "assistant":
            if should_stop():
                raise KeyboardInterrupt
            run.prepare_request(at, ends_turn=not line.message.get("tool_calls"))
        run.add_message(line)
    return run.finish()


def _read_system_prompt(stream: Iterator[RecordedLine]) -> tuple[list[str], list[RecordedLine]]:
    """Return the texts of the leading system messages, and the first message after them, if any."""
    texts: list[str] = []
    for line in stream:
        if line.message.get("role") not in ("system", "developer"):
            return texts, [line]
        content = line.message.get("content")
        if isinstance(content, list):
            content = "\n\n".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
        texts.append(content if isinstance(content, str) else "")
    return texts, []


class _ReplayRun:
    """The state of one replay."""

    def __init__(
        self,
        name: str,
        system: list[str],
        setup: ReplaySetup,
        sink: Callable[[ContenderRequest], None] | None,
        answer_note: AnswerNote | None,
    ) -> None:
        self._report = ReplayReport(name)
        self._setup = setup
        self._on_request = sink
        self._time = 0.0
        self._refusal = ""
        self._newest_user_message: Message | None = None
        self._session = Session(
            policy=setup.policy,
            window=setup.window,
            wire=MAIN_DIALECT,
            system="\n\n".join(text for text in system if text),
            tools=setup.tools,
            count=setup.count,
            clock=lambda: self._time,
            prices={"": ModelInfo(prices=setup.rates)},
        )
        self._request_sizer = RequestSizer(self._session.counter, setup.window)
        self._summary_usage: list[SummaryUsage] = []
        self._notes = ReplayNotes(self._session, answer_note) if answer_note is not None else None
        self._other_renderers = [RequestRenderer(wire) for wire in setup.dialects if wire != MAIN_DIALECT]

    def add_message(self, line: RecordedLine) -> None:
        if self._refusal:
            return
        try:
            idents = self._session.add(line.message, typed=line.typed)
        except BadInput as bad:
            raise BadInput(f"line {line.number}: {bad.args[0]}", bad.remedy) from None
        except Exception as error:  # noqa: BLE001 - as in `ask`
            self._count_failure(error)
            return
        if line.message.get("role") == "user" and idents:
            self._newest_user_message = self._session.recall(idents[-1])

    def prepare_request(self, at: int, *, ends_turn: bool) -> None:
        """Prepare a request. `ends_turn`: the recorded answer to it has no calls."""
        self._report.calls += 1
        self._time += SECONDS_PER_CALL
        request = ContenderRequest(at, (), self._refusal)
        if not self._refusal:
            self._summary_usage = []
            start = process_time()
            try:
                messages = self._session.prepare(self._summarize).messages
                cpu = process_time() - start
                request = ContenderRequest(at, messages, "", cpu, tuple(self._summary_usage), self._recall)
                self._check_request(messages)
                if self._notes is not None:
                    request = request._replace(note=self._notes.write_if_due(messages, turn_ended=ends_turn))
            except TooSmall as refusal:
                self._refusal = self._report.refusal = str(refusal)
                request = ContenderRequest(at, (), self._refusal)
            except Exception as error:  # noqa: BLE001 - the lab is here to count them, whatever they are
                self._count_failure(error)
                request = ContenderRequest(at, (), str(error) or type(error).__name__)
        self._report.refused += bool(self._refusal)
        if self._on_request is not None:
            self._on_request(request)

    def _summarize(self, request: SummaryRequest) -> str:
        """Write the deterministic summary that the session asks for, and note what a model's would cost."""
        counter = self._session.counter
        text = write_digest(request.messages, max_tokens=request.max_tokens, counter=counter, previous=request.previous)
        read = sum(self._session.budget.count(message) for message in request.messages)
        read += counter.count_text(request.instructions) + counter.count_text(request.previous)
        self._summary_usage.append(SummaryUsage(read, counter.count_text(text)))
        return text

    def _recall(self, call: str) -> str:
        recalled = self._session.history.search(call, max_chars=_UNLIMITED_CHARS)
        return recalled.text if recalled.ids else ""

    def _count_failure(self, error: Exception) -> None:
        if isinstance(error, BadRequest):
            rendering = RequestRenderer(MAIN_DIALECT)
            rendering.update(self._session.view)
            self._report.count_invalid(MAIN_DIALECT, [fault.rule for fault in rendering.faults()])
        else:
            self._report.exceptions[f"{type(error).__name__}: {error}"[:300]] += 1

    def _check_request(self, messages: Sequence[_Json]) -> None:
        report = self._report
        report.add_size(self._request_sizer.measure(messages))
        for rendering in self._other_renderers:
            rendering.update(self._session.view)
            faults = rendering.faults()
            if faults:
                report.count_invalid(rendering.dialect.name, [fault.rule for fault in faults])
        if self._setup.fresh_interval and report.calls % self._setup.fresh_interval == 0:
            self._compare_with_fresh(MAIN_DIALECT, messages, [])
            for rendering in self._other_renderers:
                self._compare_with_fresh(rendering.dialect.name, rendering.messages, rendering.faults())
        if self._newest_user_message is not None:
            self._check_newest_message(messages, self._newest_user_message)

    def _compare_with_fresh(self, wire: str, messages: Sequence[_Json], faults: Sequence[RequestFault]) -> None:
        fresh = RequestRenderer(wire)
        fresh.update(self._session.view)
        if fresh.messages != messages or fresh.faults() != faults:
            self._report.exceptions[f"a request in {wire} made afresh differs"] += 1

    def _check_newest_message(self, messages: Sequence[_Json], newest: Message) -> None:
        report = self._report
        state = classify_newest_message(newest, messages)
        if state == "whole":
            report.newest_whole += 1
            return
        budget = self._session.budget
        if state == "begun" and budget.count(newest) > budget.room:
            report.newest_clipped += 1
        else:
            report.newest_lost += 1

    def finish(self) -> ReplayReport:
        self._report.edits.update(self._session.edit_counts)
        recalls = count_recalls(self._session.log)
        self._report.tool_calls, self._report.rereads = recalls.calls, recalls.rereads
        if self._notes is not None:
            self._report.used_notes, self._report.missing_notes = self._notes.used, self._notes.missing
            self._report.unusable_notes = self._notes.unusable
        if self._setup.explain:
            self._report.edit_descriptions = [*describe_edits(self._session), str(recalls)]
        return self._report


def classify_newest_message(
    newest: Message, messages: Sequence[Mapping[str, object]]
) -> Literal["whole", "begun", "gone"]:
    """Return whether the request holds this user message: whole, its start at least, or not at all."""
    texts = [part.text for part in newest.parts if isinstance(part, Text) and part.text.strip()]
    user_texts = [_user_text_of(message) for message in messages if message.get("role") == "user"]
    if all(any(text in user_text for user_text in reversed(user_texts)) for text in texts):
        return "whole"
    return "begun" if any(texts[0][:40] in user_text for user_text in user_texts) else "gone"


def _user_text_of(message: Mapping[str, object]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "\x00".join(part["text"] for part in content if isinstance(part.get("text"), str))
    return content if isinstance(content, str) else ""
