"""Ask a model the questions of a session under the view of each policy, with and without the recall tool.

For each session, policy and window, the recording is replayed up to its last answer. The request that the policy would
have sent there gets one more user message: the question. Secrets are masked in everything that is sent or stored.
Answers are kept in the lab's cache, so a run that was stopped continues, and a repeated one costs nothing.

The questions are made without a model. Every answer occurred in a message that is more than half a window before the
place where the question is asked, and is in no later message. So a request answers a question only if its policy kept
the text, or a model fetches it back.
"""

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec

from tidegate.core.errors import TidegateError
from tidegate.core.messages import Call, Message, Result, Text, Tool, calls_of, texts_of
from tidegate.core.policy.policy import Policy
from tidegate.lab.comparison.cells import ComparisonCell, run_contender
from tidegate.lab.comparison.result_cache import ResultCache, hash_values
from tidegate.lab.comparison.session_sources import create_recording_mask, create_unit_counter, load_recording
from tidegate.lab.importers.recording import Recording
from tidegate.lab.scoring.contender_request import ContenderRequest
from tidegate.lab.scoring.identifiers import chat_text_of, flatten_arguments, iterate_chat_calls
from tidegate.lab.scoring.text_needs import clean_lines, find_rules
from tidegate.models.catalog import compute_model_cost
from tidegate.models.errors.classification import ProviderError
from tidegate.models.provider import Provider, collect_reply
from tidegate.session.session import Session
from tidegate.wire.answers import parse_reply, read_usage

QuestionKind = Literal["port", "value", "failed test", "forbidden", "parameters"]
_Json = Mapping[str, Any]

_VALUE_LINE: Final = re.compile(
    r"^[\"'`]?([A-Za-z][\w .-]{2,40}?)[\"'`]?\s*(?:[:=]|\bis\b)\s*[\"'`]?([\w.-]*\d[\w.-]*)[\"'`]?[,;.]?$"
)
_PORT: Final = re.compile(r"\bport\b\D{0,12}(\d{2,5})\b", re.I)
_FAILED_TEST: Final = re.compile(r"^(?:FAILED|FAIL:?|--- FAIL:|[✗✕×])\s+(\S+)")
_FORBIDDING: Final = re.compile(r"\b(?:never|must not|do not|don'?t|avoid)\b\s+\w+", re.I)
_FUNCTION: Final = re.compile(r"^(?:export\s+)?(?:async\s+)?(?:def|function)\s+(\w+)\s*\(([^()]+)\)")
_WORD: Final = re.compile(r"\w+")
_MIN_WORD_CHARS: Final = 4
_MAX_EXPECTED_WORDS, _MAX_PARAMETERS = 6, 6
_MIN_VALUE_CHARS: Final = 3
_BLANK: Final = "___"


class ProbeQuestion(msgspec.Struct, frozen=True):
    """A question and the texts that a right answer contains, taken from message `message_index`."""

    kind: QuestionKind
    text: str
    expected: tuple[str, ...]
    message_index: int


def generate_questions(
    messages: Sequence[_Json], tokens_before: Sequence[float], *, at: int, window: int, most: int
) -> list[ProbeQuestion]:
    """Return at most `most` questions to ask before message `at`, of all kinds in turn, the oldest first."""
    far = [index for index in range(at) if tokens_before[at] - tokens_before[index + 1] > window / 2]
    first_near = far[-1] + 1 if far else 0
    near = _normalize("\n".join(_all_text(message) for message in messages[first_near:at]))
    by_kind: dict[QuestionKind, list[ProbeQuestion]] = {}
    for question in _unambiguous(chain(_ask_lines(messages, far), _ask_rules(messages, far))):
        if not any(f" {_normalize(text).strip()} " in near for text in question.expected):
            by_kind.setdefault(question.kind, []).append(question)
    turns = chain.from_iterable(zip_longest(*by_kind.values()))
    return [question for question in turns if question is not None][:most]


def is_right_answer(answer: str, expected: Sequence[str]) -> bool:
    """Return whether the answer contains every expected text; case, punctuation and spacing do not count."""
    normal_answer = _normalize(answer)
    return all(_normalize(text) in normal_answer for text in expected)


def _normalize(text: str) -> str:
    return f" {' '.join(_WORD.findall(text.lower()))} "


def _all_text(message: _Json) -> str:
    return "\n".join(
        [chat_text_of(message), *(flatten_arguments(call["arguments"]) for call in iterate_chat_calls(message))]
    )


def _unambiguous(questions: Iterator[ProbeQuestion]) -> Iterator[ProbeQuestion]:
    """Yield each question once; none that has two answers."""
    by_text: dict[str, list[ProbeQuestion]] = {}
    for question in questions:
        by_text.setdefault(question.text, []).append(question)
    for same in by_text.values():
        if len({question.expected for question in same}) == 1:
            yield same[-1]


def _ask_lines(messages: Sequence[_Json], far: Sequence[int]) -> Iterator[ProbeQuestion]:
    for index in far:
        message = messages[index]
        if message["role"] not in ("user", "tool"):
            continue
        lines = clean_lines(chat_text_of(message))
        if message["role"] == "tool":
            yield from _ask_failed_test(messages, index, lines)
        for line in lines:
            yield from _ask_value(line, index)
            yield from _ask_parameters(line, index)


def _ask_value(line: str, index: int) -> Iterator[ProbeQuestion]:
    port = _PORT.search(line)
    if port is not None and len(line) <= 200:
        blanked = line[: port.start(1)] + _BLANK + line[port.end(1) :]
        yield ProbeQuestion("port", f"Which port number was in the line `{blanked}`?", (port[1],), index)
        return
    value = _VALUE_LINE.match(line)
    if value is not None and len(value[2]) >= _MIN_VALUE_CHARS:
        yield ProbeQuestion("value", f"What was the value of `{value[1].strip()}`?", (value[2].rstrip("."),), index)


def _ask_parameters(line: str, index: int) -> Iterator[ProbeQuestion]:
    function = _FUNCTION.match(line)
    if function is None:
        return
    names = [re.split(r"[:=]", part)[0].strip(" *.?") for part in function[2].split(",")]
    names = [name for name in names if name.isidentifier() and name not in ("self", "cls")]
    if 0 < len(names) <= _MAX_PARAMETERS:
        text = f"Which parameters does the function `{function[1]}` take?"
        yield ProbeQuestion("parameters", text, tuple(names), index)


def _ask_failed_test(messages: Sequence[_Json], index: int, lines: Sequence[str]) -> Iterator[ProbeQuestion]:
    failed = {match[1].rstrip(":") for line in lines if (match := _FAILED_TEST.match(line))}
    command = _command_of(messages, index)
    if len(failed) == 1 and command:
        name = re.split(r"::|/", failed.pop())[-1]
        yield ProbeQuestion("failed test", f"Which test failed when this was run: `{command}`?", (name,), index)


def _command_of(messages: Sequence[_Json], index: int) -> str:
    """Return the shell command whose result this message is; empty if it is none."""
    ident = messages[index].get("tool_call_id")
    for message in reversed(messages[max(0, index - 16) : index]):
        for call in message.get("tool_calls") or ():
            if call.get("id") == ident:
                text = flatten_arguments(call["function"]["arguments"])
                lines = [line for line in text.splitlines() if " " in line]
                return lines[0][:160] if lines else ""
    return ""


def _ask_rules(messages: Sequence[_Json], far: Sequence[int]) -> Iterator[ProbeQuestion]:
    for rule in find_rules(messages[: far[-1] + 1] if far else ()):
        match = _FORBIDDING.search(rule.sentence)
        if match is None:
            continue
        rest = [word for word in _WORD.findall(rule.sentence[match.end() :]) if len(word) >= _MIN_WORD_CHARS]
        if rest:
            text = f'The user forbade something with the words "{rule.sentence[: match.end()]} ...". What exactly?'
            yield ProbeQuestion("forbidden", text, tuple(rest[:_MAX_EXPECTED_WORDS]), rule.message_index)


_MAX_RECALL_CALLS: Final = 3
_MAX_RECALL_CHARS: Final = 8_000
_MAX_OUTPUT_TOKENS: Final = 512
_UNLIMITED_WINDOW: Final = 1 << 30
_INSTRUCTION: Final = (
    "Stop working for a moment and answer one question about this session in one short line."
    " If you do not know the answer, write: unknown.\n\n"
)
_RECALL_HINT: Final = "Earlier messages may have been removed; the tool `recall` reads them back.\n\n"
_RECALL_TOOL: Final = Tool(
    "recall",
    "Read earlier messages of this session back: an id (m12), a range (m12..m40), or words to search for.",
    '{"type":"object","properties":{"what":{"type":"string"}},"required":["what"]}',
)


class ProbeAnswer(msgspec.Struct, frozen=True):
    """One answer. `dollars` is None if the model's price is not known. With an error there is no answer."""

    answer: str
    recall_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    dollars: float | None = None
    error: str = ""


class ProbeRow(msgspec.Struct, frozen=True):
    """A question with its answer under one policy."""

    session: str
    window: int
    policy: str
    with_recall: bool
    question: ProbeQuestion
    answer: ProbeAnswer
    is_right: bool


class ProbeTask(NamedTuple):
    """A question to ask at the end of a request. `mask` hides secrets in everything that leaves the recording."""

    cell: ComparisonCell
    question: ProbeQuestion
    request: ContenderRequest
    with_recall: bool
    mask: Callable[[str], str]


def plan_probe(cell: ComparisonCell, most: int) -> Iterator[ProbeTask]:
    """Replay a cell to its last answer and yield its questions: without recall, then with it where there is one."""
    recording = load_recording(cell.source.path, cell.source.index_in_file)
    mask = create_recording_mask(recording)
    requests: deque[ContenderRequest] = deque(maxlen=1)
    run_contender(cell, recording, requests.append, lambda: False)
    if not requests or requests[0].error:
        return
    request = requests[0]
    for question in _questions_of(cell, recording, request.message_index, most):
        if mask(question.text) != question.text or any(mask(text) != text for text in question.expected):
            continue  # the answer is a secret
        for with_recall in (False, True) if request.recall is not None else (False,):
            yield ProbeTask(cell, question, request, with_recall, mask)


def _questions_of(cell: ComparisonCell, recording: Recording, at: int, most: int) -> list[ProbeQuestion]:
    counter = create_unit_counter(cell.terms.count)
    tokens = [0.0]
    for message in recording.messages:
        tokens.append(tokens[-1] + counter.count_message(message) / counter.units_per_token)
    return generate_questions(recording.messages, tokens, at=at, window=cell.window, most=most)


async def answer_task(task: ProbeTask, provider: Provider) -> ProbeRow:
    """Ask the model, or take its answer from the cache. An answer with an error is not cached."""
    cell = task.cell
    cache = ResultCache(Path(cell.terms.cache_folder))
    messages = [mask_values(message, task.mask) for message in task.request.messages]
    key = hash_values("probe", provider.model, provider.wire, task.with_recall, task.question.text, messages)
    answer = cache.get(key, ProbeAnswer)
    if answer is None:
        answer = await _ask(task, messages, provider)
        if not answer.error:
            cache.put(key, answer)
    right = not answer.error and is_right_answer(answer.answer, task.question.expected)
    key_of = cell.contender.key
    return ProbeRow(cell.source.name, cell.window, key_of, task.with_recall, task.question, answer, right)


async def _ask(task: ProbeTask, messages: Sequence[Mapping[str, Any]], provider: Provider) -> ProbeAnswer:
    session = _open_session(messages, provider, task)
    used_in = used_out = recalls = 0
    dollars: float | None = 0.0
    try:
        while True:
            reply = await collect_reply(provider, session.render_request().to_bytes())
            usage = read_usage(reply.usage)
            used_in, used_out = used_in + usage.input_tokens, used_out + usage.output_tokens
            price = compute_model_cost(usage, provider.model)
            dollars = None if dollars is None or price is None else dollars + price.total
            answer = parse_reply(provider.wire, reply)
            calls = [call for message in answer for call in calls_of(message)]
            if not calls or recalls >= _MAX_RECALL_CALLS:
                text = task.mask("\n".join(text for message in answer for text in texts_of(message)).strip())
                return ProbeAnswer(text, recalls, used_in, used_out, dollars)
            recalls += len(calls)
            session.add(*answer, *(_run_recall(call, task) for call in calls))
    except (ProviderError, TidegateError) as error:
        return ProbeAnswer("", recalls, used_in, used_out, dollars, str(error.args[0]) if error.args else str(error))


def _open_session(messages: Sequence[Mapping[str, Any]], provider: Provider, task: ProbeTask) -> Session:
    """Return a session that holds exactly this request and the question."""
    heads = [message for message in messages if message["role"] in ("system", "developer")]
    session = Session(
        provider.model,
        policy=Policy("probe", {}),
        wire=provider.wire,
        window=_UNLIMITED_WINDOW,
        system="\n\n".join(str(message["content"]) for message in heads),
        tools=[_RECALL_TOOL] if task.with_recall else [],
        max_tokens=_MAX_OUTPUT_TOKENS,
        request_options={"temperature": 0.0},
    )
    session.add(*(message for message in messages if message["role"] not in ("system", "developer")))
    hint = _RECALL_HINT if task.with_recall else ""
    session.add({"role": "user", "content": _INSTRUCTION + hint + task.question.text})
    return session


def _run_recall(call: Call, task: ProbeTask) -> Message:
    try:
        what = msgspec.json.decode(call.arguments, type=dict[str, Any]).get("what")
    except msgspec.MsgspecError:
        what = None
    if call.name != _RECALL_TOOL.name or not isinstance(what, str) or task.request.recall is None:
        text = "This call cannot be run: only recall can, with the argument `what`."
    else:
        text = task.mask(task.request.recall(what))[:_MAX_RECALL_CHARS] or "Nothing found."
    return Message("tool", (Result(call.id, (Text(text),)),))


def mask_values(value: Any, mask: Callable[[str], str]) -> Any:
    """A JSON value with its texts masked."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        return {key: mask_values(each, mask) for key, each in value.items()}
    return [mask_values(each, mask) for each in value] if isinstance(value, list) else value


class ProbeTotal(msgspec.Struct, frozen=True):
    """The answers of one policy in one window. `dollars` is None if a price is not known."""

    policy: str
    window: int
    with_recall: bool
    asked: int
    right: int
    failed: int
    recall_calls: int
    input_tokens: int
    dollars: float | None
    right_by_kind: dict[str, tuple[int, int]]


def sum_probe(rows: Sequence[ProbeRow]) -> list[ProbeTotal]:
    """Return the totals by window, policy and use of recall, in the order of the rows."""
    groups: dict[tuple[str, int, bool], list[ProbeRow]] = {}
    for row in rows:
        groups.setdefault((row.policy, row.window, row.with_recall), []).append(row)
    totals = []
    for (policy, window, with_recall), some in groups.items():
        kinds: dict[str, tuple[int, int]] = {}
        for row in some:
            right, count = kinds.get(row.question.kind, (0, 0))
            kinds[row.question.kind] = right + row.is_right, count + 1
        dollars = [row.answer.dollars for row in some]
        priced = [each for each in dollars if each is not None]
        totals.append(
            ProbeTotal(
                policy=policy,
                window=window,
                with_recall=with_recall,
                asked=len(some),
                right=sum(row.is_right for row in some),
                failed=sum(bool(row.answer.error) for row in some),
                recall_calls=sum(row.answer.recall_calls for row in some),
                input_tokens=sum(row.answer.input_tokens for row in some),
                dollars=sum(priced) if len(priced) == len(dollars) else None,
                right_by_kind=kinds,
            )
        )
    return sorted(totals, key=lambda total: total.window)
