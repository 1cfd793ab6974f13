"""`tidegate doctor --live PROVIDER`: a short conversation with a real provider through a gateway of its own.

The tests check against strict fakes of the providers. This program shows with a key whether the providers do what the
fakes do: they accept edits inside a tool loop with thinking, read the rest from their cache after a sweep, report
usage in the known fields, refuse a request that is too long in words that are understood, and let a model recall.

The client of the gateway is a session with a large window, which therefore never edits; the gateway has a small one.
"""

import random
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from tidegate import __version__
from tidegate.agent.config.provider_target import ProviderTarget
from tidegate.core.errors import BadInput
from tidegate.core.events import MessageAdded, ViewEdited
from tidegate.core.messages import Thinking, calls_of, text_of
from tidegate.core.notes import HiddenCalls, SentUnmanaged, ThinkingDropped, ThinkingLeftOut, is_note
from tidegate.core.text.plural import format_count
from tidegate.core.text.secrets import SecretMask
from tidegate.core.usage import Usage
from tidegate.datafolder.data_folder import DataFolder
from tidegate.gateway.app import Gateway
from tidegate.gateway.hidden_recall import MAX_ROUNDS
from tidegate.gateway.server import serve_in_background
from tidegate.gateway.settings import FAMILIES, GatewaySettings, parse_upstream
from tidegate.models.catalog import find_model
from tidegate.models.errors.classification import ProviderError
from tidegate.models.http.provider import HttpProvider, RetrySettings
from tidegate.models.pricing import TokenRates, compute_cost
from tidegate.models.provider import collect_reply
from tidegate.session.costs import CostReport
from tidegate.session.session import Session
from tidegate.store.log import LogReader
from tidegate.wire.answers import parse_reply, read_usage
from tidegate.wire.registry import get_dialect
from tidegate.wire.streaming.reply import Reply

MAX_DOLLARS: Final = 0.5
DEFAULT_MODELS: Final[Mapping[str, str]] = {
    "anthropic": "claude-haiku-5-5",
    "openai": "gpt-5-mini",
    "gemini": "gemini-3.1-flash-lite",
}
"""A cheap model of each provider that thinks."""
CHECK_WINDOW: Final = 14_000
_PARTS: Final = 14
_PART_LINES: Final = 60
_MAX_REQUESTS: Final = 2 * _PARTS
_OUTPUT_TOKENS: Final = 3_000
_OVERLONG: Final = 1.03  # times the window of the model
_SESSION: Final = "live-check"
_CODE_WORD: Final = "HERON-7315"
_TASK: Final = (
    f"Call the tool read_part with the numbers 1 to {_PARTS}, one call at a time and in order, without other words."
    " When you have read all parts, answer with the code word that part 1 names. If part 1 is not in front of you any"
    " more, read it back with the tool that reads back earlier messages; do not call read_part again."
)
_TOOL: Final = {
    "type": "function",
    "function": {
        "name": "read_part",
        "description": "Read one part of the document.",
        "parameters": {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]},
    },
}
_THINKING: Final[Mapping[str, Mapping[str, object]]] = {"anthropic": {"thinking": {"type": "adaptive"}}}


class LiveResult(NamedTuple):
    """One line of the report. `holds` is None if the check could not be made."""

    subject: str
    text: str
    holds: bool | None = True

    def __str__(self) -> str:
        return f"{ {True: 'yes', False: 'NO', None: '--'}[self.holds]:3}  {self.subject}: {self.text}"


class LivePlan(NamedTuple):
    """What will be asked of whom. `dollars` is the cost without hidden rounds, `step_dollars` the most of one request.

    `overlong_dollars`: if the request that is too long is not refused; None if it is left out because of its price.
    """

    target: ProviderTarget
    rates: tuple[TokenRates, ...]
    window: int
    dollars: float
    step_dollars: float
    overlong_dollars: float | None

    def describe(self) -> str:
        question = (
            f"This asks {self.target.model} of {self.target.provider} up to {_MAX_REQUESTS} times, and again to recall."
        )
        return f"{question} It should cost less than ${self.dollars:.2f}, and stops before ${MAX_DOLLARS:.2f}."

    def may_go_on(self, dollars: float) -> bool:
        return dollars + self.step_dollars + (self.overlong_dollars or 0.0) <= MAX_DOLLARS


def plan_live_check(target: ProviderTarget) -> LivePlan:
    """BadInput if there is no key, or if the check could cost more than `MAX_DOLLARS`."""
    model = find_model(target.model)
    if model is None or not model.window or not model.prices:
        raise BadInput(f"The window or the price of {target.model} is not known.", "Choose another model with --model.")
    if target.provider not in FAMILIES:
        raise BadInput(f"{target.provider} cannot be checked.", f"Choose one of {', '.join(FAMILIES)}.")
    if not target.api_key:
        raise BadInput(f"There is no key for {target.provider}.", "Set the environment variable of its key.")
    request = _price(Usage(CHECK_WINDOW, _OUTPUT_TOKENS, 0, CHECK_WINDOW), model.prices)
    dollars, step = _MAX_REQUESTS * request, (MAX_ROUNDS + 1) * request
    overlong = _price(Usage(round(model.window * _OVERLONG), 100, 0, 0), model.prices)
    if max(dollars, step) > MAX_DOLLARS:
        raise BadInput(
            f"The check could cost ${dollars:.2f} with {target.model}; the limit is ${MAX_DOLLARS:.2f}.",
            "Choose a cheaper model with --model.",
        )
    is_affordable = dollars + overlong <= MAX_DOLLARS
    return LivePlan(target, model.prices, model.window, dollars, step, overlong if is_affordable else None)


def _price(usage: Usage, rates: tuple[TokenRates, ...]) -> float:
    cost = compute_cost(usage, rates)
    return cost.total if cost else 0.0


async def run_live_check(plan: LivePlan, write: Callable[[str], None]) -> bool:
    """Make the check and write its report, line by line. Whether everything that could be checked holds."""
    target = plan.target
    mask = SecretMask([target.api_key])
    write(f"tidegate {__version__}, {target.provider}, {target.model}, window {CHECK_WINDOW:,} tokens")
    with tempfile.TemporaryDirectory(prefix="tidegate-live-") as folder, DataFolder(Path(folder)) as data:
        settings = GatewaySettings(
            port=0,
            upstreams=(parse_upstream(f"{target.provider}={_server_url(target)}"),),
            window=CHECK_WINDOW,
            open_sessions=4,
        )
        async with serve_in_background(Gateway(settings, data), settings) as url:
            check = _LiveConversation(plan, url, lambda: _read_cost(data))
            try:
                results = await check.converse()
            except ProviderError as error:
                results = [LiveResult("the conversation", f"it was refused: {error}", False)]
            finally:
                await check.close()
        names = [info.name for info in data.store.sessions()]
        if names:
            results += _read_log(data.open_log(names[0]), check.recalled_word)
        cost = _read_cost(data)
    results.append(await _send_overlong(plan))
    for result in results:
        write(mask(str(result)))
    write(f"spent on the conversation: about ${cost:.3f}")
    return all(result.holds is not False for result in results)


def _read_cost(data: DataFolder) -> float:
    """What the provider reported so far, with the rounds in which the gateway answered recalls."""
    return sum(CostReport(data.open_log(info.name)).read_all().dollars for info in data.store.sessions())


def _server_url(target: ProviderTarget) -> str:
    """Where the gateway forwards to: the address without the path of the provider's API."""
    own = get_dialect(target.wire).endpoint.base_url
    url = target.base_url or own
    return url.removesuffix(urlsplit(own).path) if urlsplit(own).path else url


class _LiveConversation:
    """The client: it sends its whole history, runs the tool, and notes what the provider reports."""

    def __init__(self, plan: LivePlan, url: str, read_cost: Callable[[], float]) -> None:
        target = plan.target
        dialect = get_dialect(target.wire)
        self._plan = plan
        self._read_cost = read_cost
        self._session = Session(
            target.model,
            window=plan.window,
            wire=target.wire,
            tools=[_TOOL],
            max_tokens=_OUTPUT_TOKENS,
            cache=True,
            count="chars/4",
            request_options=_THINKING.get(target.wire),
        )
        self._provider = HttpProvider(
            target.wire,
            target.model,
            base_url=url + urlsplit(dialect.endpoint.base_url).path,
            key=target.api_key,
            headers={"x-tidegate-session": _SESSION},
            retries=RetrySettings(max_retries=0),  # a broken answer is paid, and nobody reports it
        )
        self._usages: list[Usage] = []
        self._fields: set[str] = set()
        self._thinking = 0
        self.recalled_word = False

    async def close(self) -> None:
        await self._provider.close()

    async def converse(self) -> list[LiveResult]:
        self._session.add({"role": "user", "content": _TASK})
        for _ in range(_MAX_REQUESTS):
            if not self._plan.may_go_on(self._read_cost()):
                stopped = f"it was stopped after {len(self._usages)} requests, before ${MAX_DOLLARS:.2f} were spent"
                return [LiveResult("the conversation", stopped, False), *self._report()]
            reply = await collect_reply(self._provider, self._session.prepare().to_bytes())
            self._note_reply(reply)
            if not self._answer_calls(reply):
                break
        return self._report()

    def _note_reply(self, reply: Reply) -> None:
        usage = read_usage(reply.usage)
        self._usages.append(usage)
        self._fields |= set(reply.usage)

    def _answer_calls(self, reply: Reply) -> bool:
        """Add the answer and the results of its calls. Whether there were calls."""
        messages = parse_reply(self._plan.target.wire, reply)
        ids = self._session.add(*messages)
        self._thinking += any(isinstance(part, Thinking) for message in messages for part in message.parts)
        calls = [call for message in messages for call in calls_of(message)]
        if not calls:
            self.recalled_word = any(_CODE_WORD in text_of(self._session.recall(ident)) for ident in ids)
        for call in calls:
            self._session.add({"role": "tool", "tool_call_id": call.id, "content": _write_part(call.arguments)})
        return bool(calls)

    def _report(self) -> list[LiveResult]:
        shares = [usage.cache_read / usage.input_tokens for usage in self._usages if usage.input_tokens]
        read = " ".join(f"{share:.0%}" for share in shares)
        largest = max((usage.input_tokens for usage in self._usages), default=0)
        size = f"{len(self._usages)} answered; the largest had {largest:,} tokens by the provider's count"
        thought = f"{format_count(self._thinking, 'answer')} with it"
        return [
            LiveResult("requests", size, 0 < largest <= CHECK_WINDOW),
            LiveResult("thinking", thought, True if self._thinking else None),
            LiveResult("cache", f"share of each request that was read from it: {read}", any(shares)),
            LiveResult("usage fields", " ".join(sorted(self._fields)) or "none", bool(self._fields)),
        ]


def _write_part(arguments: str) -> str:
    """A part of the document: the same lines for the same number."""
    number = "".join(character for character in arguments if character.isdigit())[:3] or "0"
    dice = random.Random(number)
    lines = [f"{line}: entry {dice.getrandbits(40):010x} of shelf {dice.randint(1, 99)}" for line in range(_PART_LINES)]
    if number == "1":
        lines.insert(_PART_LINES // 2, f"The code word is {_CODE_WORD}.")
    return "\n".join([f"Part {number}", *lines])


def _read_log(log: LogReader, has_word: bool) -> list[LiveResult]:
    """What the gateway did in the conversation, by its log."""
    sweeps = recalls = calls = 0
    notes: list[str] = []
    for event in log.read():
        what = event.payload
        if isinstance(what, ViewEdited):
            sweeps += what.stage != "cap_result"
        elif isinstance(what, MessageAdded):
            calls += bool(calls_of(what.message))
        elif is_note(what, HiddenCalls):
            recalls += len(HiddenCalls.unpack(what).calls)
        elif is_note(what, ThinkingLeftOut, ThinkingDropped, SentUnmanaged):
            notes.append(f"{what.topic}: {what.text}")
    word = "the model answered with the code word" if has_word else "the model did not answer with the code word"
    return [
        LiveResult("edits inside a tool loop", f"{format_count(sweeps, 'sweep')} between {calls} calls", sweeps > 0),
        LiveResult("what the gateway noted", "; ".join(dict.fromkeys(notes)) or "nothing unusual"),
        LiveResult("recall", f"{format_count(recalls, 'call')} of the hidden tool; {word}", has_word and recalls > 0),
    ]


async def _send_overlong(plan: LivePlan) -> LiveResult:
    """Send the provider itself a request that is too long."""
    target = plan.target
    if plan.overlong_dollars is None:
        return LiveResult("a request that is too long", "not sent: it could cost too much if it is accepted", None)
    session = Session(target.model, window=4 * plan.window, wire=target.wire, count="chars/4", max_tokens=16)
    words = "tide " * round(plan.window * _OVERLONG)
    session.add({"role": "user", "content": f"Answer with one word. {words}"})
    provider = HttpProvider(target.wire, target.model, base_url=target.base_url, key=target.api_key)
    try:
        reply = await collect_reply(provider, session.prepare().to_bytes())
    except ProviderError as error:
        understood = error.kind == "overflow"
        verdict = f"refused with status {error.status}, read as {error.kind}: {error.words[:200] or error.args[0]}"
        return LiveResult("a request that is too long", verdict, understood)
    finally:
        await provider.close()
    tokens = read_usage(reply.usage).input_tokens
    return LiveResult("a request that is too long", f"it was accepted with {tokens:,} tokens", None)
