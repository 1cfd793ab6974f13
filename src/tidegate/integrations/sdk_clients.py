"""`tidegate.managed(client)`: an OpenAI or Anthropic client whose model calls go through a session.

    client = tidegate.managed(openai.OpenAI(), "data", session="my-agent", window=32_000)
    reply = client.chat.completions.create(model="gpt-4o", messages=messages)   # messages: always the whole list

The result is a copy of the client, made by its own `copy`, with another HTTP client. So every method of the SDK that
makes a model call is managed (`create`, `stream`, `parse`, raw responses), and everything else is unchanged. Requests
are edited in the bytes that the SDK wrote: messages that the view keeps are sent byte for byte. New messages are logged
before the request is sent, and the answer before the end of it is passed on.

The SDKs use `httpx` or `httpx2`, depending on their version. The classes of the one that the client uses are taken.
"""

import logging
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from functools import partial
from threading import Lock
from types import ModuleType
from typing import Any, Final, TypeVar, cast

from tidegate.core.errors import BadInput, BadRequest, TidegateError, TooSmall
from tidegate.core.policy.policy import Policy
from tidegate.core.text.lazy_pattern import LazyPattern
from tidegate.integrations.threads import DataLocation, ThreadSessions
from tidegate.models.errors.classification import ProviderError, classify_response
from tidegate.models.window_evidence import WindowKey
from tidegate.session.answer_copy import AnswerCopy
from tidegate.session.following import FollowingSession
from tidegate.session.guarded_request import leave_out_bound_thinking, write_own_request
from tidegate.session.managed_request import ClientRequest, ClientRequestReader, write_request
from tidegate.session.refusals import RefusalMemory
from tidegate.session.request_report import report_request, report_unmanaged
from tidegate.session.signed_thinking import BETA_HEADER, allow_dropping
from tidegate.wire.answers import read_usage
from tidegate.wire.registry import DIALECTS, get_dialect
from tidegate.wire.splicing.units import HostUnit

Client = TypeVar("Client")

_VERTEX_CALL: Final = LazyPattern(r"/models/(?!count-tokens:)(?P<model>[^/:]+):(?:rawPredict|streamRawPredict)\Z")
"""The path of a call of Claude on Vertex AI, which names the model instead of the body."""
_SIGNING: Final = frozenset(
    ("AnthropicAWS", "AsyncAnthropicAWS", "AnthropicBedrockMantle", "AsyncAnthropicBedrockMantle")
)
"""Clients that sign the bytes of a request for AWS. They sign again what is sent instead."""
_CLIENTS: Final = _SIGNING | {
    *("OpenAI", "AsyncOpenAI", "Anthropic", "AsyncAnthropic", "AnthropicVertex", "AsyncAnthropicVertex")
}
_BEDROCK: Final = frozenset(("AnthropicBedrock", "AsyncAnthropicBedrock"))
_FRAMEWORK: Final = "sdk"
_LOG: Final = logging.getLogger(__name__)


def managed(
    client: Client,
    data: DataLocation = None,
    *,
    session: str = "",
    model: str = "",
    window: int | None = None,
    reserve: int | None = None,
    policy: str | Policy = "default",
) -> Client:
    """A copy of an OpenAI or Anthropic client (sync or async) whose model calls go through a session.

    Of the clients for clouds, those of Azure, Vertex AI, Foundry and AWS are managed, also `AnthropicBedrockMantle`.

    Pass the whole list of messages with every call, as before. Everything is logged; what is sent fits the window. A
    request that the provider refuses as too long is shortened and sent again; one whose signed thinking it refuses
    after an edit is sent again without it. The client that was given is not changed, but shares its connections:
    closing the copy closes them, and the session.

    Parameters:

    - `data`: a data folder or its path. Without it, the folder that the command `tidegate` uses.
    - `session`: the name of the session, for a client that has one conversation. Without it, a list of messages
      continues the session whose messages it begins with, or gets a new one.
    - `model`: the name of the model for the window and the token counter, if the requests have another name.
    - `window`, `reserve`, `policy`: as for `Session`.
    """
    package, signs = _find_package(client)
    threads = ThreadSessions(data, model=model, window=window, reserve=reserve, policy=policy, session=session)
    sdk_client = cast(Any, client)
    calls = _ManagedCalls(threads, session, _list_paths(package), sdk_client._prepare_request if signs else None)
    http_client = sdk_client._client  # the SDKs have no public name for it
    library = _find_http_library(type(http_client))
    is_async = isinstance(http_client, library.AsyncClient)
    make_client = library.AsyncClient if is_async else library.Client
    managed_client = sdk_client.copy(
        http_client=make_client(
            transport=(_AsyncTransport if is_async else _SyncTransport)(calls, http_client, library),
            headers=http_client.headers,
            params=http_client.params,
            cookies=http_client.cookies,
            timeout=http_client.timeout,
        )
    )
    return cast(Client, managed_client)


def _find_package(client: object) -> tuple[str, bool]:
    """The package of the client's class, and whether the client signs its requests."""
    kinds = [(kind.__module__.partition(".")[0], kind.__name__) for kind in type(client).__mro__]
    for package, kind in kinds:
        if kind in _CLIENTS and _list_paths(package):
            return package, any(each in _SIGNING for _, each in kinds)
    if any(package == "anthropic" and kind in _BEDROCK for package, kind in kinds):
        raise BadInput(
            "tidegate.managed cannot log the answers of AnthropicBedrock: they stream in a binary format of AWS.",
            "Pass an AnthropicBedrockMantle, which reaches Bedrock with Anthropic's own format.",
        )
    raise BadInput(
        f"tidegate.managed does not know clients of the type {type(client).__name__}.",
        "Pass an openai.OpenAI, openai.AsyncOpenAI, anthropic.Anthropic or anthropic.AsyncAnthropic.",
    )


def _list_paths(package: str) -> dict[str, str]:
    """The ends of the paths that are managed, with their dialects, by the package of the client."""
    dialects = [dialect for dialect in DIALECTS.values() if dialect.paths.sdk == package]
    return {end: dialect.name for dialect in reversed(dialects) for end in dialect.paths.endings}


def _find_http_library(http_client: type) -> ModuleType:
    """`httpx` or `httpx2`: the package of the HTTP client's class."""
    kinds = (kind for kind in reversed(http_client.__mro__) if kind.__name__ in ("Client", "AsyncClient"))
    return sys.modules[next(kinds).__module__.partition(".")[0]]


# --- one call -----------------------------------------------------------------------------------------------------


class _ManagedCalls:
    """Finds the requests that are managed, and the session for them."""

    def __init__(
        self, threads: ThreadSessions, session: str, paths: Mapping[str, str], sign: Callable[[Any], Any] | None
    ) -> None:
        """`sign` signs a request for AWS: with an async client it returns an awaitable."""
        self.sign = sign
        self._threads = threads
        self._session = session
        self._paths = paths
        self._reader = ClientRequestReader()
        self._refusals = RefusalMemory()
        self._lock = Lock()  # a client may be used by several threads

    def start(self, request: Any) -> "tuple[Any, _Exchange | None]":
        """Log what is new in a request and compute its view. Without an exchange, the request is sent unmanaged."""
        dialect = next((self._paths[end] for end in self._paths if request.url.path.endswith(end)), "")
        vertex = None if dialect or "/messages" not in self._paths else _VERTEX_CALL.search(request.url.path)
        dialect = "anthropic" if vertex else dialect
        if not dialect or request.method != "POST" or (_is_signed(request) and self.sign is None):
            return request, None
        with self._lock:
            model = vertex["model"] if vertex else ""
            client = self._reader.read(dialect, request.content, model, self._session or _FRAMEWORK)
        if client is not None and client.host.reason:
            _LOG.warning("A request is sent unmanaged and not logged: %s", client.host.reason)
        if client is None or client.host.reason or not client.items:
            return request, None
        following: FollowingSession[HostUnit] | None = None
        try:
            name = self._threads.name(_FRAMEWORK)
            session, following = self._threads.follow_list(name, client.items, client.host.model, dialect)
            key = WindowKey("", f"{request.url.host}:{request.url.port}", client.host.model)
            fail = partial(self._threads.expect_retry, session)
            return request, _Exchange(session, following, client, self._refusals, key, fail)
        except TooSmall as small:
            report_unmanaged(following, small.args[0])
            text = leave_out_bound_thinking(client, following, client.text) if following else client.text
            return (request if text == client.text else _change_body(request, text)), None

    def close(self) -> None:
        self._threads.close()


class _Exchange:
    """A managed request: the view that is sent, and the answer for the log. `fail` is called if there is none."""

    def __init__(
        self,
        session: str,
        following: FollowingSession[HostUnit],
        client: ClientRequest,
        refusals: RefusalMemory,
        key: WindowKey,
        fail: Callable[[], None],
    ) -> None:
        self._following = following
        self._client = client
        self._refusals = refusals
        self._window_key = key
        self._sent = b""
        self._demands_thinking = get_dialect(client.dialect).thinking.is_demanded(client.body)
        self._thinking_refusals = 0
        self._first_refusal: Any = None  # a response, before a much smaller request is tried
        self.fail = fail
        refusals.apply(following, key)
        self._followed = following.prepare(client.items, fixed_part=client.fixed_part)
        report_request(following, self._followed, session)
        self._copy = AnswerCopy(get_dialect(client.dialect), is_stream=False)
        self._is_recorded = False
        self._has_usage = False

    def build_request(self, request: Any) -> Any:
        """The SDK's request with the body that fits. Streams are asked for uncompressed, so that they can be read."""
        try:
            body = write_request(self._client, self._followed)
        except BadRequest as defect:
            report_unmanaged(self._following, f"a defect: {defect.args[0]}")
            body = write_own_request(self._client, self._following)
            self._followed = self._followed.answer_elsewhere()
        if self._thinking_refusals > 1:
            body = get_dialect(self._client.dialect).thinking.leave_out(body)
        old_betas = request.headers.get(BETA_HEADER, "")
        body, betas = allow_dropping(self._client, self._following, request.url.host, body, old_betas)
        self._sent = body
        new_request = _change_body(request, body, is_stream=bool(self._client.body.get("stream")))
        if betas != old_betas:
            new_request.headers[BETA_HEADER] = betas
        return new_request

    def start_stream(self, response: Any) -> bool:
        """Whether the answer is a stream. It is copied from here on."""
        is_stream = response.is_success and response.headers.get("content-type", "").startswith("text/event-stream")
        self._copy = AnswerCopy(get_dialect(self._client.dialect), is_stream=is_stream, request=self._sent)
        return bool(is_stream)

    def take_whole(self, response: Any) -> Any:
        """Record an answer that is not a stream. The response for the caller; None: another request may be accepted.

        If a much smaller request was refused, too, it is the first refusal.
        """
        if not response.is_success:
            error = classify_response(
                response.status_code, response.content, dict(response.headers), request=self._sent
            )
            final = response if self._first_refusal is None else self._first_refusal
            if self._answer_refusal(error):
                self._first_refusal = response if self._followed.tried else None
                return None
            self.fail()
            return final
        self._copy.feed(response.content)
        self._copy.end()
        self.record()
        return response

    def feed(self, piece: bytes) -> bool:
        """Take a piece of a stream before it is passed on. Whether the stream has content or an error by now."""
        self._copy.feed(piece)
        self._record_if_whole()
        return self._copy.has_begun or self._copy.error is not None

    def must_repeat(self) -> bool:
        """Whether the stream began with an error after which another request may be accepted."""
        return self._copy.error is not None and self._answer_refusal(self._copy.error)

    def _answer_refusal(self, error: ProviderError) -> bool:
        if error.kind == "reasoning_state":
            self._thinking_refusals += 1
            if self._thinking_refusals == 2 and self._demands_thinking:
                return True
        output = get_dialect(self._client.dialect).output.read(self._client.body)
        retry = self._refusals.answer(self._following, self._followed, error, self._window_key, output)
        self._followed = retry or self._followed
        return retry is not None

    def _record_if_whole(self) -> None:
        if self._is_recorded or not self._copy.is_whole:
            return
        try:
            copied = self._copy.read()
        except TidegateError:
            return
        self._is_recorded, self._has_usage = True, bool(copied.usage)
        tokens = read_usage(copied.usage).input_tokens
        self._refusals.take_accepted(self._following, self._followed, self._window_key, tokens)
        self._try_to_record(copied.message, copied.usage)

    def record(self) -> None:
        """Record what is left at the end: the answer, the part of one that was cut off, or a usage that came last."""
        self._record_if_whole()
        if not self._is_recorded:
            self.fail()
        beginning = None if self._is_recorded else self._copy.read_partial()
        usage = self._copy.read_usage() if self._is_recorded and not self._has_usage else {}
        self._is_recorded = self._has_usage = True
        self._try_to_record(beginning, usage, partial=beginning is not None)

    def _try_to_record(self, *answer: Any, partial: bool = False) -> None:
        """The caller gets the answer in any case. One that was not logged is in the list of the next call."""
        try:
            self._following.record_reply(self._followed, *answer, partial=partial)
        except (TidegateError, OSError) as failure:
            _LOG.warning("An answer was not logged: %s", failure)


def _is_signed(request: Any) -> bool:
    """Whether the request has a signature for AWS, which is one of its bytes."""
    return bool(request.headers.get("authorization", "").startswith("AWS4-"))


def _change_body(request: Any, body: bytes, *, is_stream: bool = False) -> Any:
    headers = request.headers.copy()
    headers["content-length"] = str(len(body))
    if is_stream:
        headers["accept-encoding"] = "identity"
    extensions = dict(request.extensions)
    return type(request)(request.method, request.url, headers=headers, content=body, extensions=extensions)


# --- HTTP ---------------------------------------------------------------------------------------------------------


class _CopiedStream:
    """The stream of an answer, recorded while the caller reads it. `held` are the pieces that were read already.

    The HTTP library accepts only subclasses of its own class, so the transport makes one.
    """

    def __init__(
        self, exchange: _Exchange, first_pieces: Sequence[bytes], pieces: Iterator[bytes], stream: Any
    ) -> None:
        self._exchange = exchange
        self._held = first_pieces
        self._pieces = pieces
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        yield from self._held
        for piece in self._pieces:
            self._exchange.feed(piece)
            yield piece

    def close(self) -> None:
        self._exchange.record()
        self._stream.close()


class _CopiedAsyncStream:
    """The same for async clients."""

    def __init__(
        self, exchange: _Exchange, first_pieces: Sequence[bytes], pieces: AsyncIterator[bytes], stream: Any
    ) -> None:
        self._exchange = exchange
        self._held = first_pieces
        self._pieces = pieces
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._held:
            yield piece
        async for piece in self._pieces:
            self._exchange.feed(piece)
            yield piece

    async def aclose(self) -> None:
        self._exchange.record()
        await self._stream.aclose()


class _SyncTransport:
    """Sends the requests of the copied client with the HTTP client of the original one."""

    def __init__(self, calls: _ManagedCalls, http_client: Any, library: ModuleType) -> None:
        self._calls = calls
        self._http_client = http_client
        self._stream_type: Any = type("CopiedStream", (_CopiedStream, library.SyncByteStream), {})

    def handle_request(self, request: Any) -> Any:
        request, exchange = self._calls.start(request)
        if exchange is None:
            return self._http_client.send(request, stream=True)
        while True:
            try:
                new_request = exchange.build_request(request)
                if self._calls.sign is not None and _is_signed(new_request):
                    self._calls.sign(new_request)
                response = self._http_client.send(new_request, stream=True)
            except BaseException:
                exchange.fail()
                raise
            if not exchange.start_stream(response):
                response.read()
                final = exchange.take_whole(response)
                if final is None:
                    continue
                return final
            pieces, first_pieces = iter(response.stream), list[bytes]()
            for piece in pieces:
                first_pieces.append(piece)
                if exchange.feed(piece):
                    break
            if exchange.must_repeat():
                response.close()
                continue
            response.stream = self._stream_type(exchange, first_pieces, pieces, response.stream)
            return response

    def __enter__(self) -> "_SyncTransport":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http_client.close()
        self._calls.close()


class _AsyncTransport:
    """The same for async clients."""

    def __init__(self, calls: _ManagedCalls, http_client: Any, library: ModuleType) -> None:
        self._calls = calls
        self._http_client = http_client
        self._stream_type: Any = type("CopiedAsyncStream", (_CopiedAsyncStream, library.AsyncByteStream), {})

    async def handle_async_request(self, request: Any) -> Any:
        request, exchange = self._calls.start(request)
        if exchange is None:
            return await self._http_client.send(request, stream=True)
        while True:
            try:
                new_request = exchange.build_request(request)
                if self._calls.sign is not None and _is_signed(new_request):
                    await self._calls.sign(new_request)
                response = await self._http_client.send(new_request, stream=True)
            except BaseException:
                exchange.fail()
                raise
            if not exchange.start_stream(response):
                await response.aread()
                final = exchange.take_whole(response)
                if final is None:
                    continue
                return final
            pieces, first_pieces = aiter(response.stream), list[bytes]()
            async for piece in pieces:
                first_pieces.append(piece)
                if exchange.feed(piece):
                    break
            if exchange.must_repeat():
                await response.aclose()
                continue
            response.stream = self._stream_type(exchange, first_pieces, pieces, response.stream)
            return response

    async def __aenter__(self) -> "_AsyncTransport":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._http_client.aclose()
        self._calls.close()
