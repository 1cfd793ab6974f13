"""The request that asks the client's own model for a state note: what it was sent last, and one instruction more."""

from typing import Final, NamedTuple
from urllib.parse import quote, urlsplit

import msgspec

from tidegate.core.errors import TidegateError
from tidegate.core.state_note.instruction import NoteTask
from tidegate.core.tokens.counting import REQUEST_OVERHEAD
from tidegate.gateway.upstream_clients import IncomingRequest
from tidegate.models.catalog import find_window
from tidegate.session.managed_request import ClientRequest, find_new_faults, read_client_request, write_without_thinking
from tidegate.session.note_writer import NoteRefused
from tidegate.session.state_notes import WriteTask, count_answer_tokens
from tidegate.wire.dialect import CompactionForm, Dialect
from tidegate.wire.registry import get_dialect
from tidegate.wire.splicing.last_words import append_user_text
from tidegate.wire.splicing.spans import remove_member, replace_value

_THINKING_TOKENS: Final = 16_000
"""Of output beside the note, for a model that thinks before it writes. A request with a budget of its own keeps it."""
_MIN_OUTPUT_SHARE: Final = 0.6
"""Of the wanted output: with less room, a note would be cut off."""
_EFFORT_KEYS: Final = ("output_config", "reasoning_effort", "reasoning", "verbosity")
"""What only some models of a provider know."""


class AnsweredRequest(NamedTuple):
    """A request that an upstream has answered. `body` is what was sent of `client`; `tokens` are its size by our count,
    `last_id` is its last message in the log, `birth` that of its answer.
    """

    incoming: IncomingRequest
    body: bytes
    client: ClientRequest
    tokens: int
    last_id: str
    birth: str = ""

    @property
    def model(self) -> str:
        return self.client.host.model

    def find_compaction(self) -> CompactionForm | None:
        """How the upstream is asked for a block in place of this request; None if it cannot be."""
        form = get_dialect(self.client.dialect).find_compaction(self.model)
        host = urlsplit(self.incoming.route.upstream.url).hostname or ""
        return (
            form if form is not None and form.is_served(host) and form.ask(self.client.body, "") is not None else None
        )


class NoteRequest(NamedTuple):
    incoming: IncomingRequest
    body: bytes
    model: str


def write_note_request(
    sent: AnsweredRequest, task: WriteTask, instruction_tokens: int, window: int | None, other_model: str = ""
) -> NoteRequest:
    """The request for a note. NoteRefused says why there is none. It reads the whole request: call it in a thread."""
    dialect, model = get_dialect(sent.client.dialect), other_model or sent.model
    if other_model and other_model != sent.model:
        window = find_window(other_model) or window
    try:
        incoming, text = _change_model(sent, other_model)
        room = _choose_output(sent, task, instruction_tokens, window)
        text = dialect.output.lower(text, sent.client.body, room)
        wanted = count_answer_tokens(task) + (_THINKING_TOKENS if asks_for_block(task) else 0)
        text = dialect.output.raise_to(text, sent.client.body, min(room, wanted))
        if asks_for_block(task):
            incoming, text = _ask_for_block(incoming, text, dialect, task.instruction)
        else:
            text = append_user_text(dialect.form, text, task.instruction)
        faults = find_new_faults(sent.client._replace(source=None), text)
    except (TidegateError, KeyError, msgspec.MsgspecError) as failure:
        raise NoteRefused(f"the request cannot be continued: {type(failure).__name__}") from failure
    if faults:
        raise NoteRefused(f"the question would break a rule of {dialect.name}: {faults[0].rule}")
    return NoteRequest(incoming, text, model)


def asks_for_block(task: WriteTask) -> bool:
    """Whether the provider is asked for a block in place of the request."""
    return isinstance(task, NoteTask) and task.asked is not None


def _ask_for_block(
    incoming: IncomingRequest, text: bytes, dialect: Dialect, instruction: str
) -> tuple[IncomingRequest, bytes]:
    """Exactly the messages that were sent, with the option and its header."""
    form = dialect.compaction
    head = form.ask({}, instruction) if form is not None else None
    assert form is not None
    assert head is not None
    option = b'"%s":%s,' % (form.option.encode(), msgspec.json.encode(head[form.option]))
    start = text.index(b"{") + 1
    name = form.beta[0].encode()
    given = [value.decode("latin-1") for key, value in incoming.raw_headers if key.lower() == name]
    betas = form.add_beta({form.beta[0]: ",".join(given)} if given else {})[form.beta[0]]
    headers = [pair for pair in incoming.raw_headers if pair[0].lower() != name]
    incoming = incoming._replace(raw_headers=[*headers, (name, betas.encode("latin-1"))])
    return incoming, text[:start] + option + text[start:]


def _choose_output(sent: AnsweredRequest, task: WriteTask, instruction_tokens: int, window: int | None) -> int:
    tokens = count_answer_tokens(task)
    own = get_dialect(sent.client.dialect).thinking.read_budget(sent.client.body)
    most = tokens + max(own, _THINKING_TOKENS)
    left = window - sent.tokens - instruction_tokens - REQUEST_OVERHEAD if window else most
    if left < tokens * _MIN_OUTPUT_SHARE + own:
        raise NoteRefused("the window has no room for the question")
    return min(most, left)


def _change_model(sent: AnsweredRequest, other_model: str) -> tuple[IncomingRequest, bytes]:
    """The same request to another model: without thinking, which only the first one can read."""
    incoming, text = sent.incoming, sent.body
    if not other_model or other_model == sent.model:
        return incoming, text
    dialect = get_dialect(sent.client.dialect)
    read = read_client_request(dialect.name, text, sent.model)
    text = dialect.thinking.leave_out(write_without_thinking(read) if read is not None else text)
    for key in _EFFORT_KEYS:
        text = remove_member(text, key)
    if not dialect.paths.has_model:
        return incoming, replace_value(text, ("model",), msgspec.json.encode(other_model))
    path = dialect.paths.replace_model(incoming.route.path, quote(other_model, safe=""))
    return incoming._replace(route=incoming.route._replace(path=path)), text
