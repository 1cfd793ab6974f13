"""The proof that a chat was kept: what was observed while it ran, compared with the data folder opened again."""

import hashlib
import shutil
import sys
from pathlib import Path
from textwrap import fill, shorten
from typing import Final, NamedTuple

import msgspec

from tidegate.agent.loop import AgentEvent, RequestSent
from tidegate.agent.runtime import UserNotice
from tidegate.core.events import MessageAdded, ViewEdited
from tidegate.core.messages import Message, text_of
from tidegate.core.text.plural import format_count
from tidegate.datafolder.data_folder import DataFolder
from tidegate.models.provider import Delta, Reply
from tidegate.proof.session_proof import Proof
from tidegate.session.conversation import LiveConversation
from tidegate.session.request import list_sent_requests, render_past_request
from tidegate.tui.agent_thread import AgentActivity, AgentOpened, EventLogged, ThreadEvent, TurnFinished

_MAX_REASON_CHARS: Final = 100


class ProofReport(NamedTuple):
    holds: bool
    text: str


class ChatObserver:
    """Observes the session `name`: its messages, its answers as they were streamed, and hashes of its requests."""

    def __init__(self, name: str, window: int) -> None:
        self.name = name
        self.window = window
        self.messages: list[Message] = []
        self.answers: list[str] = []
        self.request_hashes: list[str] = []
        self.largest_request = 0
        self.has_compacted = False
        self._is_current = False
        self._text = ""
        self._last_request_hash = ""

    def observe(self, news: ThreadEvent) -> None:
        match news:
            case AgentOpened(session_name=name):
                self._is_current = name == self.name
            case EventLogged(event) if self._is_current and isinstance(event.payload, MessageAdded):
                self.messages.append(event.payload.message)
            case EventLogged(event) if self._is_current and isinstance(event.payload, ViewEdited):
                self.has_compacted = True
            case AgentActivity(what) if self._is_current:
                self._observe_activity(what)
            case TurnFinished():
                self._store_answer()

    def _observe_activity(self, activity: AgentEvent | UserNotice) -> None:
        match activity:
            case RequestSent(request=request):
                self._last_request_hash = hashlib.sha256(request.to_bytes()).hexdigest()
                self.largest_request = max(self.largest_request, request.tokens)
                self._text = ""
            case Delta(kind="text", text=text):
                self._text += text
            case Reply():
                self.request_hashes.append(self._last_request_hash)
                self._store_answer()

    def _store_answer(self) -> None:
        """Store the streamed answer, also one that was interrupted."""
        if self._text.strip():
            self.answers.append(self._text)
        self._text = ""


def prove_chat(observer: ChatObserver, folder: Path) -> ProofReport:
    data = DataFolder(folder, secrets=[])
    try:
        if not observer.messages:
            return ProofReport(True, "There were no messages, so nothing was stored.")
        with data.open_conversation(observer.name) as conversation:
            proofs = [
                _prove_fit(observer),
                _prove_kept(observer, conversation),
                _prove_answers(observer, conversation),
                _prove_recall(observer, conversation),
                _prove_rendering(observer, conversation),
            ]
            compactions = _describe_compactions(conversation)
    finally:
        data.close()
    holds = all(proof.holds for proof in proofs)
    lines = ["\nnothing was lost" if holds else "\nNOT PROVED"]
    lines += [proof.describe() for proof in proofs]
    return ProofReport(holds, "\n".join([*compactions, *lines]))


def print_proof(proof: ProofReport) -> None:
    """Print the end of a demo. On a terminal, lines are wrapped between words."""
    text = f"{proof.text}\n\nThis session is gone with its folder; `tidegate chat` begins one that is kept."
    if sys.stdout.isatty():
        width = max(40, shutil.get_terminal_size().columns)
        lines = (fill(line, width, subsequent_indent="       ") if line else "" for line in text.split("\n"))
        text = "\n".join(lines)
    print(text)


def _describe_compactions(conversation: LiveConversation) -> list[str]:
    edits = [event.payload for event in conversation.log.read() if isinstance(event.payload, ViewEdited)]
    lines = [
        f"  {each.rule or each.stage}: {each.tokens_before:,} -> {each.tokens_after:,} tokens;"
        f" {shorten(each.why, _MAX_REASON_CHARS)}"
        for each in edits
    ]
    return [f"\nwhat was done to the window: {format_count(len(edits), 'compaction')}", *lines]


def _prove_fit(observer: ChatObserver) -> Proof:
    count, largest = len(observer.request_hashes), observer.largest_request
    claim = f"{count} requests, the largest {largest:,} tokens in a window of {observer.window:,}"
    return Proof(observer.largest_request <= observer.window, claim, count)


def _read_messages(conversation: LiveConversation) -> list[Message]:
    return [event.payload.message for event in conversation.log.read() if isinstance(event.payload, MessageAdded)]


def _prove_kept(observer: ChatObserver, conversation: LiveConversation) -> Proof:
    messages = _read_messages(conversation)
    whole = hashlib.sha256(msgspec.json.encode(messages)).hexdigest()[:12]
    claim = (
        f"{len(observer.messages)} messages said, {len(messages)} in the log on disk, byte for byte (sha256 {whole}...)"
    )
    return Proof(msgspec.json.encode(messages) == msgspec.json.encode(observer.messages), claim)


def _prove_answers(observer: ChatObserver, conversation: LiveConversation) -> Proof:
    """Compare the answers. An interrupted one is kept with a mark at its end."""
    texts = [
        text_of(each) for each in _read_messages(conversation) if each.role == "assistant" and text_of(each).strip()
    ]
    same = sum(text.startswith(answer_text) for text, answer_text in zip(texts, observer.answers, strict=False))
    claim = f"{len(observer.answers)} answers came, {same} in the log as they came"
    return Proof(len(observer.answers) == len(texts) == same, claim, same)


def _prove_recall(observer: ChatObserver, conversation: LiveConversation) -> Proof:
    visible_messages = {item.message.id: item.message for item in conversation.view.items}
    missing_messages = [each for each in observer.messages if visible_messages.get(each.id) != each]
    back = [each for each in missing_messages if conversation.recall(each.id) == each]
    claim = (
        f"{len(missing_messages)} messages left the window or were cut in it; {len(back)} come back by their ids, whole"
    )
    return Proof(len(missing_messages) == len(back), claim, len(missing_messages))


def _prove_rendering(observer: ChatObserver, conversation: LiveConversation) -> Proof:
    hashes = [
        hashlib.sha256(render_past_request(conversation.log, request.log_head).to_bytes()).hexdigest()
        for request in list_sent_requests(conversation.log)
    ]
    same = sum(one == other for one, other in zip(hashes, observer.request_hashes, strict=False))
    claim = f"{same} of {len(observer.request_hashes)} requests rendered again from the log alone have the same bytes"
    return Proof(len(hashes) == len(observer.request_hashes) == same, claim, same)
