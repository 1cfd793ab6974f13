"""Recall that the client does not see: the gateway offers the model a tool and answers its calls itself.

The tool is appended to the client's own tools. An answer that only recalls is continued: the results are sent, and the
client gets the next answer as the rest of the first. If an answer also has calls for the client, the results wait for
the client's. The log has every exchange, and each later request gets them back at their places.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from tidegate.core.errors import BadInput
from tidegate.core.events import NoteAdded
from tidegate.core.messages import Call, Message, Tool, calls_of, result_of, text_of
from tidegate.core.notes import HiddenCall, HiddenCalls
from tidegate.gateway.conversations import Conversation
from tidegate.session.answer_copy import CopiedAnswer
from tidegate.session.managed_request import ClientRequest, continue_stored, find_new_faults, read_client_request
from tidegate.session.recall import recall_message, recall_text
from tidegate.wire.answers import create_merged_answer, read_reply
from tidegate.wire.parsing import decode_object
from tidegate.wire.registry import get_dialect
from tidegate.wire.splicing.hidden_answers import HiddenAnswer, HiddenResult
from tidegate.wire.streaming.merged_answer import MergedAnswer

RECALL_NAME: Final = "recall"
RECALL_TOOL: Final = Tool(
    RECALL_NAME,
    "Read back parts of this conversation that are no longer shown to you. Notes such as [recall m12 has all of it] and"
    " ranges such as m2..m59 say what there is. Give an id, a range, the path of a file, or words to search for.",
    msgspec.json.encode(
        {
            "type": "object",
            "properties": {
                "what": {"type": "string", "description": "m12, m12..m40, src/a.py, or words to search for"},
                "offset": {"type": "integer", "description": "where to go on, as the last result says"},
            },
            "required": ["what"],
        }
    ).decode(),
)
MAX_ROUNDS: Final = 8
_MAX_RESULT_CHARS: Final = 8_000
_MAX_ARGUMENT_CHARS: Final = 4_000
"""A call with more is answered as one without arguments: it would be sent again with every later request."""
_LAST_ROUND_NOTE: Final = "\n[This was the last recall for this answer. Go on without it.]"
_MAX_CACHED_MESSAGES: Final = 2_000


def offer_recall(client: ClientRequest, earlier_tools: Sequence[Tool] = ()) -> ClientRequest:
    """The request with the tool, if it has tools of its own, and none of this name.

    `earlier_tools` are those of the last request: what was offered there is offered again as it was, because the cache
    of the provider and signed thinking depend on it.
    """
    tool = next((tool for tool in earlier_tools if tool.name == RECALL_NAME), RECALL_TOOL)
    return (client.add_tool(tool) if client.host.tools else None) or client


def restore_hidden_exchanges(conversation: Conversation, client: ClientRequest) -> ClientRequest:
    """The request with the hidden exchanges of its conversation at their places. This reads the log.

    A request without tools stays as it is, unless it has calls all the same: providers refuse calls in it.
    """
    tree = conversation.following.tree
    if not tree.has_hidden_calls:
        return client
    steps = tree.walk([item.key for item in client.items])
    answers: dict[int, list[HiddenAnswer]] = {}
    results: dict[int, list[HiddenResult]] = {}
    for place, step in enumerate(steps):
        calls = tree.hidden_calls(step.id)
        hidden_messages = [_read_message(conversation, ident) for ident in step.hidden]
        if calls or any(message.role == "assistant" for message in hidden_messages):
            answers[place] = _group_answers(conversation, hidden_messages, step.id)
        elif hidden_messages:
            results[place] = [_read_result(message) for message in hidden_messages]
    if steps and len(steps) < len(client.items) and (waiting := tree.hidden_calls(steps[-1].id)):
        results[len(steps)] = _find_waiting_results(conversation, steps[-1].id, waiting)
    may_have_calls = client.host.tools or any(calls_of(item.message) for item in client.items)
    if not (answers or results) or not may_have_calls:
        return client
    text = get_dialect(client.dialect).form.insert_exchanges(client.text, client.host, answers, results)
    restored = read_client_request(client.dialect, text, client.host.model)
    return restored._replace(offers_recall=client.offers_recall) if restored else client


def restore_waiting_results(conversation: Conversation, client: ClientRequest, answer: str) -> ClientRequest:
    """A request that continues an answer of the log, with the results of the answer's hidden calls. Reads the log."""
    waiting = conversation.following.tree.hidden_calls(answer)
    if not waiting or not client.items:
        return client
    results = {0: _find_waiting_results(conversation, answer, waiting)}
    text = get_dialect(client.dialect).form.insert_exchanges(client.text, client.host, {}, results)
    return read_client_request(client.dialect, text, client.host.model) or client


def _read_message(conversation: Conversation, ident: str) -> Message:
    cache = conversation.hidden_messages
    if ident not in cache:
        if len(cache) >= _MAX_CACHED_MESSAGES:
            cache.clear()
        cache[ident] = recall_message(conversation.following.session.log, ident)
    return cache[ident]


def _read_result(message: Message) -> HiddenResult:
    result = result_of(message)
    return HiddenResult(result.call_id if result else "", RECALL_NAME, text_of(message))


def _group_answers(conversation: Conversation, hidden_messages: list[Message], last: str) -> list[HiddenAnswer]:
    tree, answers = conversation.following.tree, list[HiddenAnswer]()
    for message in (*hidden_messages, _read_message(conversation, last)):
        if message.role == "assistant":
            answers.append(HiddenAnswer(message, tree.hidden_calls(message.id)))
        else:
            answers[-1] = answers[-1]._replace(results=(*answers[-1].results, _read_result(message)))
    return answers


def _find_waiting_results(
    conversation: Conversation, answer: str, waiting: tuple[HiddenCall, ...]
) -> list[HiddenResult]:
    """The results of hidden calls in an answer with other calls: those of the log, else new ones."""
    calls = {call.id: call for call in calls_of(_read_message(conversation, answer))}
    results: list[HiddenResult] = []
    for each in waiting:
        if result_id := conversation.following.tree.hidden_result(answer, each.id):
            results.append(_read_result(_read_message(conversation, result_id)))
        elif each.id in calls:
            results.append(HiddenResult(each.id, RECALL_NAME, answer_recall(conversation, answer, calls[each.id])))
    return results


def answer_recall(conversation: Conversation, last_id: str, call: Call) -> str:
    """The result of a call of the tool, from the conversation up to the message `last_id`. This reads the log."""
    session, log = conversation.following.session, conversation.open_recalled_log(last_id)
    arguments = decode_object(call.arguments)
    offset = arguments.get("offset")
    recall = recall_text(
        log,
        arguments.get("what"),
        max_chars=min(_MAX_RESULT_CHARS, (session.window or 100_000) // 5),
        offset=offset if isinstance(offset, int) else 0,
        whole_chars=session.whole_recall_chars,
        index=session.history.recall_index,
    )
    return recall.text


class HiddenRecall:
    """The answers to one request of a client: `merged` is the one that the client gets.

    `has_calls`: the newest answer was read, and has hidden calls that are to be answered before the next. If `merged`
    goes on without them, the answer is too odd to be read, and must break off.
    """

    def __init__(self, dialect: str) -> None:
        self._dialect = get_dialect(dialect)
        self.merged: MergedAnswer = create_merged_answer(dialect, RECALL_NAME)
        self._rounds = 0
        self._calls: list[Call] = []
        self._messages: list[dict[str, object]] = []

    @property
    def has_calls(self) -> bool:
        return bool(self._calls)

    def take_answer(self, copied: CopiedAnswer) -> tuple[Message | None, list[NoteAdded]]:
        """The answer as it is logged, and the note about its hidden calls. Calls that stay unanswered are left out."""
        message, messages = copied.message, copied.client_messages
        bounded = self._dialect.calls.bound_arguments(messages, RECALL_NAME, _MAX_ARGUMENT_CHARS)
        if bounded != messages:
            message, messages = read_reply(self._dialect, self._dialect.to_client_messages(bounded)), bounded
        hidden_calls = [call for call in calls_of(message) if call.name == RECALL_NAME] if message else []
        if message is None or not hidden_calls:
            return message, []
        has_others = len(calls_of(message)) > len(hidden_calls)
        raw = self._dialect.calls.list_raw_calls(messages, RECALL_NAME)
        is_answered = not has_others if self.merged.goes_on else has_others and copied.asks_for_calls
        if not is_answered or len(raw) != len(hidden_calls):
            visible_parts = tuple(part for part in message.parts if part not in hidden_calls)
            return msgspec.structs.replace(message, parts=visible_parts) if visible_parts else None, []
        self._calls, self._messages = hidden_calls, messages
        return message, [
            HiddenCalls(tuple(HiddenCall(*each) for each in zip((c.id for c in hidden_calls), raw, strict=True))).pack()
        ]

    def continue_request(self, conversation: Conversation, client: ClientRequest, last_id: str) -> ClientRequest | None:
        """The request for the next answer: with the newest answer and the results of its calls. This reads the log.

        `last_id` is the last message of the request so far.
        """
        if not self._calls:
            raise BadInput("The answer has hidden calls that cannot be read.", "Ask again.")
        self._rounds += 1
        self.merged.start_next()
        self.merged.is_last = self._rounds >= MAX_ROUNDS
        results = [
            HiddenResult(call.id, RECALL_NAME, answer_recall(conversation, last_id, call)) for call in self._calls
        ]
        if self.merged.is_last:
            results[-1] = results[-1]._replace(text=results[-1].text + _LAST_ROUND_NOTE)
        text = self._dialect.form.append_exchange(client.text, self._messages, results)
        self._calls = []
        if find_new_faults(client, text):
            raise BadInput("The answer has hidden calls, and cannot be sent back.", "Ask again.")
        continued = read_client_request(client.dialect, text, client.host.model)
        if continued is None:
            return None
        if client.chain is not None:
            before = client.items[: len(client.items) - len(client.host.units)]
            continued = continue_stored(continued, client.chain, before, client.host.system)
        return continued._replace(offers_recall=True)
