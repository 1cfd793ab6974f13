"""The description of one dialect: how its requests are written, read and checked, and who serves it.

Types only. Each dialect fills them in its own file; `wire/registry.py` lists the dialects.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

import msgspec

from tidegate.core.messages import Compaction, Message, Tool
from tidegate.wire.parsing import ParsedRequest
from tidegate.wire.rendering.blocks import DialectCapabilities, JsonObject, LayoutBlock, RequestOptions
from tidegate.wire.rendering.identifiers import map_tool_names
from tidegate.wire.splicing.call_form import CallForm
from tidegate.wire.splicing.memo import ReadMemo
from tidegate.wire.splicing.message_form import MessageForm
from tidegate.wire.splicing.options import OutputLimit, ThinkingOption
from tidegate.wire.splicing.units import HostRequest
from tidegate.wire.streaming.merged_answer import MergedAnswer
from tidegate.wire.streaming.reply import ReplyAssembler
from tidegate.wire.streaming.scripted_answer import ScriptedAnswer
from tidegate.wire.usage import UsageForm
from tidegate.wire.validation.faults import STRICT_PROFILE, ValidationProfile
from tidegate.wire.validation.validator import RequestValidator

_THINKING = ThinkingOption()


class Endpoint(NamedTuple):
    """Where requests are sent.

    The key goes into `key_header`, after `key_prefix`. `stream_fields` are added to the body to get a stream.
    `lists_windows`: the list of models says how large their windows are. `has_model_pages`: each model has an entry
    of its own at `/models/MODEL`.
    """

    base_url: str
    path: str
    key_header: str = "authorization"
    key_prefix: str = "Bearer "
    stream_fields: bytes = b'"stream":true'
    headers: Mapping[str, str] = MappingProxyType({})
    lists_windows: bool = True
    has_model_pages: bool = False


class Vendor(NamedTuple):
    """The provider that defined a dialect: its name in a configuration, the environment variable with its key, its
    name in OpenTelemetry's conventions, and how the names of its models start."""

    name: str
    key_variable: str
    otel_name: str
    model_prefixes: tuple[str, ...] = ()


def use_strict_profile(model: str) -> ValidationProfile:
    return STRICT_PROFILE


def _allow_thinking(messages: Sequence[JsonObject]) -> bool:
    return True


def _starts_loops_freely(options: RequestOptions) -> bool:
    return False


def _never(model: str) -> bool:
    return False


def _read_no_lifetime(body: Mapping[str, object]) -> float:
    return 0.0


def _add_no_marker(message: JsonObject) -> JsonObject | None:
    return None


class RequestPaths(NamedTuple):
    """The paths of a provider's URLs to which requests in a dialect are sent, by their ends.

    `count_endings` are those of requests that only count tokens. `has_model`: the path names the model. `sdk` is the
    package of the provider's own client.
    """

    endings: tuple[str, ...] = ()
    count_endings: tuple[str, ...] = ()
    has_model: bool = False
    sdk: str = ""

    def replace_model(self, path: str, model: str) -> str:
        """The path for another model, whose name is quoted: `.../MODEL:METHOD`."""
        before, _, method = path.rpartition(":")
        return f"{before.rpartition('/')[0]}/{model}:{method}"


class MessageMarks(NamedTuple):
    """By what a message of unknown origin is known to be of a dialect, from the surest to the least sure.

    `keys` are keys of a message, and `part_types` types of the parts in its `content`, that no other dialect has.
    `usual_keys` and `roles` are those of a message that has none of these. `has_text_lists`: an answer may be a list
    of texts. `has_type`: a message has a type.
    """

    keys: frozenset[str] = frozenset()
    part_types: frozenset[str] = frozenset()
    usual_keys: frozenset[str] = frozenset()
    roles: tuple[str, ...] = ()
    has_text_lists: bool = False
    has_type: bool = False


def _recognize_nothing(body: Mapping[str, object]) -> int:
    return 0


class RequestReader(Protocol):
    """Reads the messages of a client's request. With the `memo` of its last request it reads only what is new."""

    def __call__(self, body: JsonObject, memo: ReadMemo | None = None) -> HostRequest: ...


class StoredAnswers(NamedTuple):
    """How the requests of a provider continue answers that it has stored (`wire/openai_responses/stored_state.py`)."""

    stores_answer: Callable[[Mapping[str, object]], bool]
    read_previous_id: Callable[[Mapping[str, object]], str]
    has_previous_id: Callable[[bytes], bool]
    replace_previous_id: Callable[[bytes, str], bytes]
    write_whole: Callable[[bytes, Sequence[JsonObject]], bytes]
    list_phases: Callable[[Sequence[JsonObject]], list[str]]
    render_stored: Callable[[Iterable[Message], object, Mapping[str, Sequence[str]]], list[JsonObject]]


class CompactionForm(NamedTuple):
    """How a provider is asked for a block in the place of all messages of a request, with its summary as text.

    `beta` is the header, with its value, of that request and of all later ones, which begin with the block. `ask` adds
    the `option` with our instructions to the head of a request; None if the provider would refuse it. `read` gives the
    block of an answer. `is_offered` says which models write and read such blocks, `is_served` which servers surely do.
    """

    beta: tuple[str, str]
    option: str
    max_instruction_chars: int
    is_offered: Callable[[str], bool]
    is_served: Callable[[str], bool]
    ask: Callable[[JsonObject, str], JsonObject | None]
    read: Callable[[Message], Compaction | None]

    def add_beta(self, headers: Mapping[str, str]) -> dict[str, str]:
        """The headers with the one for such blocks, beside other values of it."""
        name, value = self.beta
        values = [each for key, each in headers.items() if key.lower() == name]
        others = {key: each for key, each in headers.items() if key.lower() != name}
        return {**others, name: ",".join(values if any(value in each for each in values) else [*values, value])}


class AnswerForm(NamedTuple):
    """The answers of a dialect.

    `create_assembler` reads the frames of a stream, `frames_from_body` makes frames of an answer without streaming.
    `encode_frames` and `encode_body` write an answer for a client. `create_merger` joins several answers to one without
    the calls of a hidden tool, which it gets by name. `names_events`: each event of a stream has the type of its frame
    as its name. `end_mark` follows the last event.
    """

    create_assembler: Callable[[], ReplyAssembler]
    frames_from_body: Callable[[Mapping[str, object]], list[JsonObject]]
    encode_frames: Callable[[ScriptedAnswer], Iterator[JsonObject]]
    encode_body: Callable[[ScriptedAnswer], JsonObject]
    create_merger: Callable[[str], MergedAnswer]
    names_events: bool = False
    end_mark: bytes = b""


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """One way to write a request.

    Messages and requests: `parse_message` and `parse_body` read them, the `render_` functions write them;
    `render_leading_messages` gives the messages before the first block. By its `marks` a message of
    unknown origin is known to be in this dialect; `recognize_body` says how surely a body is: the larger the surer.
    `profile_for_model` says what the validator demands. `answers` reads and writes answers, `usage` reads their usage.

    Requests of clients: `paths` are those of their URLs. `read_request` reads one; `form` writes messages into it,
    `calls` a hidden tool. `to_client_messages` gives an answer as a client sends it back. `output` and `thinking`
    are options of a request. `stored_answers` is there if requests can continue what the provider stored,
    `compaction` if a provider writes blocks in place of messages on demand.

    What a provider's models accept: `binds_prefix` says whether a model's signed thinking is bound to everything
    before it, `keeps_loop_start` whether a running tool loop may have to begin with its thinking.
    `starts_loops_with_thinking` says whether with these options it surely must, and `allows_thinking` whether the
    one in these messages does. `takes_instructions` says whether a model accepts system messages in
    mid-conversation. `add_cache_marker` gives a copy of a message that ends with a marker for the provider's cache, or
    None if the provider has no such markers. `read_cache_lifetime` gives the seconds for which a request asks the
    provider to keep it in its cache; 0 if it does not. Without a `vendor`, another dialect of the same provider has
    it.
    """

    name: str
    capabilities: DialectCapabilities
    endpoint: Endpoint
    vendor: Vendor | None = None
    render_head: Callable[[str, tuple[Tool, ...], RequestOptions, bool], JsonObject]
    render_leading_messages: Callable[[str], list[JsonObject]]
    render_block: Callable[[LayoutBlock, RequestOptions], list[JsonObject]]
    parse_message: Callable[[object], list[Message]]
    parse_body: Callable[[object], ParsedRequest]
    answers: AnswerForm
    form: MessageForm
    calls: CallForm
    read_request: RequestReader
    to_client_messages: Callable[[Sequence[JsonObject]], list[JsonObject]] = list
    output: OutputLimit
    thinking: ThinkingOption = _THINKING
    usage: UsageForm
    paths: RequestPaths = RequestPaths()
    marks: MessageMarks = MessageMarks()
    recognize_body: Callable[[Mapping[str, object]], int] = _recognize_nothing
    create_validator: Callable[[Mapping[str, object], ValidationProfile], RequestValidator]
    profile_for_model: Callable[[str], ValidationProfile] = use_strict_profile
    binds_prefix: Callable[[str], bool] = _never
    keeps_loop_start: Callable[[str], bool] = _never
    takes_instructions: Callable[[str], bool] = _never
    starts_loops_with_thinking: Callable[[RequestOptions], bool] = _starts_loops_freely
    allows_thinking: Callable[[Sequence[JsonObject]], bool] = _allow_thinking
    add_cache_marker: Callable[[JsonObject], JsonObject | None] = _add_no_marker
    read_cache_lifetime: Callable[[Mapping[str, object]], float] = _read_no_lifetime
    stored_answers: StoredAnswers | None = None
    compaction: CompactionForm | None = None

    def find_compaction(self, model: str) -> CompactionForm | None:
        """How this model is asked for a block in place of messages; None if it writes none."""
        return self.compaction if self.compaction is not None and self.compaction.is_offered(model) else None

    def output_tokens(self, options: RequestOptions) -> int:
        """The number of output tokens a request asks for; 0: no limit."""
        return options.max_tokens or self.capabilities.default_max_tokens

    @property
    def messages_key(self) -> str:
        """The key of the messages in the body."""
        return self.form.key

    @property
    def family(self) -> str:
        """The `Message.origin` whose opaque data this dialect may send back."""
        return self.capabilities.family

    def tool_names(self, tools: tuple[Tool, ...]) -> dict[str, str]:
        """Map the names that a model will use to the names of the tools."""
        return map_tool_names(tools, self.capabilities.identifiers)
