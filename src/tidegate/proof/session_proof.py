"""The proof that a session lost nothing: the input is compared with what its log returns.

The two sides are read by different code. Input is fingerprinted from the caller's JSON, output from the messages of the
log; only equal content gives equal fingerprints.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from tidegate.core.events import MessageAdded
from tidegate.core.messages import Call, Image, Message, Result, Text, Thinking
from tidegate.core.view import LogView
from tidegate.session.session import Session
from tidegate.wire.request import RequestRenderer


class Proof(msgspec.Struct, frozen=True):
    """One claim, with the figures that support it."""

    holds: bool
    claim: str
    checked: int = 1
    """How many things were compared. With 0 nothing was proved, and the report says so."""

    def describe(self) -> str:
        if self.holds and not self.checked:
            return f"  --   {self.claim}: there was nothing to check, so this proves nothing"
        return f"  {'yes' if self.holds else 'NO '}  {self.claim}"


class SessionWitness:
    """Records every message before the session gets it, and every request after."""

    def __init__(self) -> None:
        self.input_digests: dict[str, str] = {}
        self.requests: list[tuple[int, str]] = []

    def add_message(self, ident: str, message: Mapping[str, object]) -> None:
        self.input_digests[ident] = _digest(_input_texts(message))

    def add_request(self, head: int, request: bytes) -> None:
        self.requests.append((head, hashlib.sha256(request).hexdigest()))

    def make_proofs(self, session: Session) -> list[Proof]:
        return [self._prove_kept(session), self._prove_recall(session), self._prove_rendering(session)]

    def _prove_kept(self, session: Session) -> Proof:
        """Prove that every message is in the log, byte for byte and in order."""
        digests = {}
        for event in session.log.read():
            if isinstance(event.payload, MessageAdded):
                digests[event.payload.message.id] = _digest(_logged_texts(event.payload.message))
        whole = _digest(digests.values())[:12]
        same = list(digests.items()) == list(self.input_digests.items())
        return Proof(
            same,
            f"{len(self.input_digests)} messages said, {len(digests)} in the log, byte for byte (sha256 {whole}...)",
        )

    def _prove_recall(self, session: Session) -> Proof:
        """Prove that recall returns every message that the view no longer shows in full."""
        visible_messages = {item.message.id: item.message for item in session.view.items}
        missing_messages = [
            ident
            for ident, digest in self.input_digests.items()
            if ident not in visible_messages or _digest(_logged_texts(visible_messages[ident])) != digest
        ]
        back = [
            ident
            for ident in missing_messages
            if _digest(_logged_texts(session.recall(ident))) == self.input_digests[ident]
        ]
        return Proof(
            missing_messages == back,
            f"{len(missing_messages)} messages left the view or were cut in it; {len(back)} recalled by id, whole",
        )

    def _prove_rendering(self, session: Session) -> Proof:
        """Prove that the log alone renders every request again, from the first to the last."""
        view = LogView()
        waiting = iter(self.requests)
        head, digest = next(waiting, (0, ""))
        same = 0
        for event in session.log.read():
            view.fold(event)
            if event.seq == head:
                rendering = RequestRenderer(session.dialect, model=session.model)
                rendering.update(view)
                same += hashlib.sha256(rendering.to_bytes()).hexdigest() == digest
                head, digest = next(waiting, (0, ""))
        claim = f"{same} of {len(self.requests)} requests rendered again from the log alone have the same bytes"
        return Proof(same == len(self.requests), claim)


def _digest(texts: Iterable[str]) -> str:
    sha = hashlib.sha256()
    for text in texts:
        raw = text.encode("utf-8", "surrogatepass")
        sha.update(b"%d:" % len(raw) + raw)
    return sha.hexdigest()


def _input_texts(message: Mapping[str, object]) -> Iterator[str]:
    """Return the texts of a message in OpenAI chat form."""
    yield str(message["role"])
    yield str(message.get("tool_call_id", ""))
    yield str(message.get("reasoning_content", ""))
    content = message.get("content")
    if isinstance(content, str):
        yield content
    for part in content if isinstance(content, list) else ():
        yield part["text"] if "text" in part else part["image_url"]["url"]
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        yield from (call["id"], call["function"]["name"], call["function"]["arguments"])


def _logged_texts(message: Message) -> Iterator[str]:
    """Return the texts of a message of the log."""
    results = [part for part in message.parts if isinstance(part, Result)]
    yield message.role
    yield results[0].call_id if results else ""
    yield "".join(part.text for part in message.parts if isinstance(part, Thinking))
    for part in (*(inner for result in results for inner in result.parts), *message.parts):
        if isinstance(part, Text):
            yield part.text
        elif isinstance(part, Image):
            yield part.url or f"data:{part.media};base64,{part.data}"
    for part in message.parts:
        if isinstance(part, Call):
            yield from (part.id, part.name, part.arguments)
