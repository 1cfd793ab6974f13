"""A session that follows the list of messages which a host keeps itself.

A host (a gateway for HTTP clients, an adapter for a framework) has its own messages and sends all of them with every
call. Before each call it hands its list to `FollowingSession`:

    following = FollowingSession(session)
    request = following.prepare([make_host_item(obj, parse(obj)) for obj in host_messages])
    for shown in request.shown:          # in the host's order
        ...                              # shown.item.host is the host's own object, untouched; or a replacement
    following.record_reply(request, reply, usage)

Messages that are known are recognized by their keys; new ones are added to the log. If the host rewrote its past (its
own compaction, a rewind, an edited message), the log gets a branch event: the conversation continues from the last
message that both have in common, and the other branch stays in the log. A host that returns to an earlier branch
continues that one.

Calls on one FollowingSession are serialized: use either the sync or the async methods of an object, not both. A reply
that arrives when the conversation has meanwhile gone another way is kept in the log but not shown.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from hashlib import blake2b
from itertools import count, islice
from typing import Final, Generic, Literal, NamedTuple, TypeVar

import msgspec

from tidegate.core.budget import measure_request
from tidegate.core.events import (
    BranchStarted,
    EventPayload,
    HostMessageAdded,
    MessageAdded,
    NoteAdded,
)
from tidegate.core.ledger.writer import held_rules
from tidegate.core.message_key import hash_message
from tidegate.core.messages import INTERRUPTED, Message, Tool, compacts_history, is_user_request, resolve_visibility
from tidegate.core.notes import AnswerBirth, ContextCleared, SystemSet, ToolsSet
from tidegate.core.plan import Decision
from tidegate.core.thinking_walk import BORN_ELSEWHERE, ThinkingWalk, has_signed_data, seq_of_id
from tidegate.core.tokens.counting import count_message, count_system, count_tools
from tidegate.core.view import Item, View
from tidegate.models.errors.numbers import MAX_WINDOW_TOKENS
from tidegate.session.continuation import Continuation, choose_record_tokens
from tidegate.session.conversation import make_encodable
from tidegate.session.host_tree import ROOT, HostTree
from tidegate.session.left_out_requests import restore_requests
from tidegate.session.session import Session
from tidegate.session.smaller_try import SmallerTry
from tidegate.session.summaries.drivers import AsyncSummarizer, Summarizer, run_steps
from tidegate.session.unconfirmed import MakePayloads
from tidegate.wire.answers import read_usage
from tidegate.wire.parsing import repair_unicode

HostObject = TypeVar("HostObject")
_PREFACE: Final = 2
"""Messages that a client may say at every beginning: Gemini CLI's description of the folder, and an answer to it."""


# --- the host's list and the fixed part ---------------------------------------------------------------------------


class HostItem(NamedTuple, Generic[HostObject]):
    """A message of the host: its own object, the message as the engine reads it, and the key that identifies it."""

    host: HostObject
    message: Message
    key: str


def make_host_item(host: HostObject, message: Message, key: str = "") -> HostItem[HostObject]:
    """An item of the host's list. Without a `key` the content of the message identifies it."""
    return HostItem(host, message, key or hash_message(message))


class FixedPart(NamedTuple):
    """The parts of a request before its messages. `is_changed`: it is not the host's own, something was added to it.

    `cache_lifetime`: for how many seconds the host asks the provider to keep the request in its cache; 0 if unknown.
    """

    system: str = ""
    tools: tuple[Tool, ...] = ()
    is_changed: bool = False
    cache_lifetime: float = 0.0


# --- following ----------------------------------------------------------------------------------------------------


class Shown(NamedTuple, Generic[HostObject]):
    """One item of the view. `kept`: send the host's own object; `replaced`: send `message` in its place; `inserted`:
    a message of the engine, which the host does not have.

    `signed` is False if data that a provider signed must not be sent with it (`core/thinking_walk.py`).
    """

    state: Literal["kept", "replaced", "inserted"]
    item: HostItem[HostObject] | None
    message: Message
    signed: bool


class FollowedRequest(NamedTuple, Generic[HostObject]):
    """The view for one call of the host. `changed` is the view in the host's order; None if it is the host's own list.

    The host's list are the first `size` of `items`: the list itself may grow afterwards. `saved_tokens` is by how much
    the view is smaller than the host's list, in the provider's tokens as `tokens` are. `last_id` is the id of the last
    message of the host's list in the log, `birth` that of an answer to it. `tried`: it is a much smaller one, after a
    refusal with unknown words. The view are the first `view_size` of `view_items`; `was_edited`: this or an earlier one
    has edits. `window` is the one that it fits, None if none is known, and `decisions` are those that made it fit.
    """

    items: Sequence[HostItem[HostObject]]
    size: int
    changed: list[Shown[HostObject]] | None
    tokens: int
    tip: str
    measured: tuple[int, int]
    branched: bool
    new_messages: int
    saved_tokens: int
    birth: str
    last_id: str = ""
    tried: SmallerTry | None = None
    view_items: Sequence[Item] = ()
    view_size: int = 0
    was_edited: bool = False
    window: int | None = None
    decisions: Sequence[Decision] = ()

    @property
    def is_unchanged(self) -> bool:
        """Whether the view is the host's own list, nothing else."""
        return self.changed is None

    def answer_elsewhere(self) -> "FollowedRequest[HostObject]":
        """The same request for an answer to other bytes than the view: its thinking will not be sent with a view."""
        return self._replace(birth=self.birth and BORN_ELSEWHERE)

    def hash_view(self, before: str = "") -> str:
        """A hash of which messages the view has and how they are edited; of those `before` a message, if it is given.

        Empty if that message is not in the view as the log has it.
        """
        state = blake2b(digest_size=12)
        for item in islice(self.view_items, self.view_size):
            if item.message.id == before:
                return "" if item.edited else state.hexdigest()
            state.update(b"%s %d\n" % (item.message.id.encode(), item.edited))
        return "" if before else state.hexdigest()

    def count_unsigned(self) -> int:
        """How many messages have signed data that must not be sent."""
        own = (entry for entry in self.changed or () if entry.item is not None and not entry.signed)
        return sum(has_signed_data(entry.item.message) for entry in own if entry.item is not None)

    @property
    def shown(self) -> list[Shown[HostObject]]:
        """The items of the view, in the host's order."""
        if self.changed is None:
            return [Shown("kept", item, item.message, True) for item in islice(self.items, self.size)]
        return self.changed


def count_continued(tree: HostTree, items: Sequence[HostItem[HostObject]], known_ids: Sequence[str] = ()) -> int:
    """How many messages of a log a list begins with, if it continues the conversation of the log; else 0.

    It does if it begins with everything on the current branch: whoever sends the list learns nothing that is not in it.
    Two conversations that begin alike are not one: the list must have an answer of the log, or go on after its last
    message. Only the newest answer may be missing, because a host that is killed may not have saved it. `known_ids` are
    the ids of its first messages, as far as they were matched before.
    """
    known_ids = [
        *known_ids,
        *tree.match([item.key for item in items[len(known_ids) :]], known_ids[-1] if known_ids else ROOT),
    ]
    has_answer = any(item.message.role == "assistant" for item in items[: len(known_ids)])
    if not known_ids:
        is_continued = False
    elif known_ids[-1] == tree.tip:
        is_continued = has_answer or len(items) > len(known_ids)
    else:
        is_continued = has_answer and tree.is_newest_answer_after(known_ids[-1])
    return len(known_ids) if is_continued else 0


class _LogMoved(Exception):
    """Another process appended to the log: look again what is new."""


class FollowingSession(Generic[HostObject]):
    """Follows a host's list of messages; see the top of this file.

    `refuses_edited_thinking`: the provider refused thinking after an edit, although the model's name does not say that
    it would (`Dialect.binds_prefix`). `left_out_thinking` counts the messages whose thinking the last request left out;
    `unmanaged_reason` is why it was sent unmanaged, if it was. With a `continuation`, the host is a client that
    continues the work of others. `restores_requests`: the host rewrites the beginning of its list, and may leave out
    requests of the user (`session/left_out_requests.py`).
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self._live, self._runner, _, self._note_model, self._calls = session.parts
        self.tree = self._tree = HostTree(session.log.read())
        session.history.observe(self._tree.feed)
        # The last list; as far as it is known, its ids in the log, and where each id is in the list.
        self._known: list[HostItem[HostObject]] = []
        self._ids: list[str] = []
        self._places: dict[str, int] = {}
        self._arrangement: _Arrangement[HostObject] | None = None  # of the last request, if it can be continued
        self._fixed_is_changed = False
        self.refuses_edited_thinking = False
        self.left_out_thinking = 0
        self.unmanaged_reason = ""
        self.continuation: Continuation | None = None
        self.restores_requests = False
        self._runner.holds_turn_note = True  # a host's answer follows soon, and is stored with it
        self._logged: list[HostItem[HostObject]] = []
        self._lock = threading.RLock()
        self._async_lock = asyncio.Lock()

    def _fixed_part_notes(self, fixed_part: FixedPart, view: View) -> list[EventPayload]:
        counter, notes = self._live.counter, list[EventPayload]()
        system, tools = fixed_part.system, fixed_part.tools
        if system != view.system and (system := repair_unicode(system)) != view.system:
            notes.append(SystemSet(system, count_system(system, counter), by_host=True).pack())
        if tools != view.tools:
            size = count_tools(tools, counter)
            notes.append(ToolsSet(tools, size, by_host=not fixed_part.is_changed).pack())
        return notes

    def prepare(
        self,
        items: Sequence[HostItem[HostObject]],
        summarize: Summarizer | None = None,
        *,
        fixed_part: FixedPart | None = None,
        max_output: int = 0,
    ) -> FollowedRequest[HostObject]:
        """Add what is new in the host's list, make the view fit, and return it in terms of the host's own objects.

        `fixed_part` are the host's system prompt and tools. If the host changes them, signed data stays as it is.
        `max_output` is the answer that the host asks for, in tokens: it needs room beside the view.
        """
        with self._lock:
            self._runner.max_output = max_output
            branched, new_messages = self._add_new(items, fixed_part)
            run_steps(self._runner.fit_steps(), summarize, self._runner.note_summary_failure)
            return self._build_request(items, branched, new_messages)

    async def prepare_async(
        self,
        items: Sequence[HostItem[HostObject]],
        summarize: AsyncSummarizer | None = None,
        *,
        fixed_part: FixedPart | None = None,
        max_output: int = 0,
    ) -> FollowedRequest[HostObject]:
        """The same for async code."""
        async with self._async_lock:
            if summarize is None:  # nothing to await between: one thread does all of it
                return await self._calls.run(self.prepare, items, fixed_part=fixed_part, max_output=max_output)
            self._runner.max_output = max_output
            branched, new_messages = await self._calls.run(self._add_new, items, fixed_part)
            await self.session.fit_async(summarize)
            return self._build_request(items, branched, new_messages)

    def _add_new(self, items: Sequence[HostItem[HostObject]], fixed_part: FixedPart | None) -> tuple[bool, int]:
        """Append what the log does not have. Return whether a branch was started, and the number of new messages.

        The log is read again only if nothing is new, or if the store refuses the append because another process was
        first: reading its head before each append would take about as long as planning.
        """
        is_fresh = branched = False
        if fixed_part is not None:
            self._runner.cache_lifetime = fixed_part.cache_lifetime
        if fixed_part is not None and fixed_part.is_changed != self._fixed_is_changed:
            self._fixed_is_changed, self._arrangement = fixed_part.is_changed, None
        while True:
            known_ids = self._match(items)
            branch = self._find_branch(known_ids)
            view = self._live.view
            turn_notes = self._runner.list_held_notes(view) if branch is None else []
            notes = self._fixed_part_notes(fixed_part, view) if fixed_part else []
            new_events: list[EventPayload] = [
                self._make_payload(item.message, item.key) for item in items[len(known_ids) :]
            ]
            if branch is not None and self.restores_requests:
                new_events[:0] = self._restore_requests(items, known_ids, fixed_part or FixedPart())
            has_record = self._put_opening(new_events, items, known_ids, fixed_part, branch)
            if not (is_fresh or notes or new_events or branch):
                self.session.history.refresh()
                is_fresh = True
                continue
            try:
                if branch is not None:
                    self._live.append_all(self._append_here([branch]))
                    branched = True
                    self._note_model()  # the branch may begin before it was noted, as what follows
                    notes = self._fixed_part_notes(fixed_part, self._live.view) if fixed_part else []
                if notes or new_events:
                    self._live.append_all(self._append_here([*turn_notes, *notes, *new_events]))
            except _LogMoved:
                is_fresh = True
                continue
            if self.continuation is not None and new_events:
                self.continuation.note_begun(has_record, has_tools=bool(fixed_part and fixed_part.tools))
            return branched, len(items) - len(known_ids)

    def _put_opening(
        self,
        new_events: list[EventPayload],
        items: Sequence[HostItem[HostObject]],
        known_ids: Sequence[str],
        fixed_part: FixedPart | None,
        branch: BranchStarted | None,
    ) -> bool:
        """Put into the new events what a client that continues a session gets. Return whether it got a record.

        The record comes before the user's newest message: what a client says at every beginning stays the beginning
        that its other conversations in the session have, too.
        """
        if self.continuation is None or len(known_ids) == len(items):
            return False
        session, continuation, has_tools = self.session, self.continuation, bool(fixed_part and fixed_part.tools)
        place, record = 0, list[EventPayload]()
        if continuation.wants_record(has_tools=has_tools):
            keys = [] if known_ids else [item.key for item in items]
            known_count, ident = (len(known_ids), known_ids[-1]) if known_ids else self._tree.find_rewritten(keys)
            place = known_count - len(known_ids)
            after = self._tree.resume_seq(ident) if ident else branch.edit if branch is not None else session.log.head
            returns = self._is_return(items[:known_count], ident)
            room = self._count_room(items, fixed_part or FixedPart())
            record = continuation.make_record(session.log.read, after, room, session.counter, is_return=returns)
        requests = [at for at, item in enumerate(items, -len(known_ids)) if is_user_request(item.message)]
        before = max([place, *requests[-1:]])
        new_events[before:before] = record
        new_events[place:place] = continuation.note_client(self._tree.speaker)
        return bool(record)

    def _restore_requests(
        self,
        items: Sequence[HostItem[HostObject]],
        known_ids: Sequence[str],
        fixed_part: FixedPart,
    ) -> list[EventPayload]:
        """What the user typed before the messages that the list still has. Nothing if the user typed something else
        in its place: then the user changed it."""
        keys = [item.key for item in items]
        size, last = self._tree.find_rewritten(keys)
        earlier = {*self._tree.list_path(last), *(item.message.id for item in self._live.view.items)}
        return restore_requests(
            self._live.log.read(),
            earlier,
            [(item.key, item.message) for item in items[len(known_ids) : size]],
            {rule.text for rule in held_rules(self._live.view)},
            choose_record_tokens(self._count_room(items, fixed_part)),
            self._live.counter,
        )

    def _is_return(self, start: Sequence[HostItem[HostObject]], ident: str) -> bool:
        """Whether a list goes on with work of its own: not if it has only what the client says at every beginning."""
        is_end = bool(ident) and self._tree.is_last(ident)
        return is_end or any(item.message.role == "assistant" for item in start[_PREFACE:])

    def _count_room(self, items: Sequence[HostItem[HostObject]], part: FixedPart) -> int:
        """What a request leaves of the window, in our tokens."""
        counter = self._live.counter
        fixed = count_system(part.system, counter) + count_tools(part.tools, counter)
        new = sum(count_message(item.message, counter) for item in items)
        return (self.session.window or MAX_WINDOW_TOKENS) - fixed - new

    def _append_here(self, payloads: Sequence[EventPayload]) -> MakePayloads:
        """The payloads for the end of the log as it is now. If another process appended first, they are not appended
        after its events: these may be the same ones.
        """
        head = self._live.log.head

        def make(first: int) -> Sequence[EventPayload]:
            if self._live.log.head != head:
                raise _LogMoved
            return _complete(payloads, first)

        return make

    def _match(self, items: Sequence[HostItem[HostObject]]) -> list[str]:
        """The ids of the host's messages, as far as they are known. Only what follows the last list is looked up.

        As a rule the list has only grown, and its objects are the same. Python sees this without touching them.
        """
        last_items, ids = self._known, self._ids
        del last_items[len(ids) :]
        last_items += items[len(ids) :]
        if last_items != items:
            self._arrangement = None
            if [item.key for item in last_items] != [item.key for item in items]:
                self._ids = ids = []
                self._places = {}
            last_items[:] = items
        match = self._tree.match([item.key for item in items[len(ids) :]], ids[-1] if ids else ROOT)
        self._places.update(zip(match, count(len(ids)), strict=False))
        ids += match
        return ids

    def preview(self, items: Sequence[HostItem[HostObject]]) -> list[Shown[HostObject]] | None:
        """The host's list as it would be shown now; nothing is added or changed. None if it is another branch.

        The list may lack the newest messages of the log: a host also asks about a list that has been answered.
        """
        ids = self._tree.match([item.key for item in items])
        later = self._tree.list_after(ids[-1]) if ids else None
        if later is None:
            return None
        places = dict(zip(ids, count(), strict=False))
        unknown = set(later)
        view = self._live.view
        view_items = [item for item in view.items if item.message.id not in unknown]
        items_before = _list_covered(view, items, places)
        arrangement = _Arrangement[HostObject](view_items, len(self._tree.hidden), self._start_walk(view), items_before)
        arrangement.extend(items, places, self._tree.hidden)
        return arrangement.list_shown() + [Shown("kept", item, item.message, True) for item in items[len(ids) :]]

    def shrink(self, items: Sequence[HostItem[HostObject]]) -> FollowedRequest[HostObject]:
        """The view after a provider refused the last request as too long. GiveUp after the policy's last attempt."""
        with self._lock:
            self.session.recovery.shrink()
            self._arrangement = None
            return self._build_request(items, False, 0)

    def discard_thinking(self, items: Sequence[HostItem[HostObject]]) -> FollowedRequest[HostObject]:
        """The view after a provider refused its signed thinking: all of it is left out from now on."""
        with self._lock:
            self.session.recovery.discard_signed_reasoning()
            self._arrangement = None
            return self._build_request(items, False, 0)

    def _find_branch(self, known_ids: Sequence[str]) -> BranchStarted | None:
        """The branch event that leads to the last known message, unless the conversation is there already."""
        last = known_ids[-1] if known_ids else ROOT
        is_there = last == self._tree.tip and not self._tree.is_left
        return None if is_there else BranchStarted(text=str(self._tree.resume_seq(last)))

    def _make_payload(self, message: Message, key: str) -> HostMessageAdded:
        message = make_encodable(message)
        visible, live = resolve_visibility(message), self._live
        thinking = live.dialect.capabilities.plain_thinking
        tokens = 0 if visible is None else count_message(visible, live.counter, thinking=thinking)
        return HostMessageAdded(message, tokens, key)

    def _build_request(
        self, items: Sequence[HostItem[HostObject]], branched: bool, new_messages: int
    ) -> FollowedRequest[HostObject]:
        view = self._live.view
        budget, window = self._runner.find_budget(view), self._runner.window
        ids = self._match(items)
        assert len(ids) == len(items), "each message of the host is in the log"
        arrangement = self._arrange(items, view)
        return FollowedRequest(
            items,
            len(items),
            None if arrangement.is_own_list(len(items)) else arrangement.list_shown(),
            measure_request(view, budget),
            self._tree.tip,
            self._live.last_request,
            branched,
            new_messages,
            round(max(0, self._tree.tokens - view.tokens) * budget.scale),
            arrangement.walk.birth,
            ids[-1] if ids else "",
            view_items=view.items,
            view_size=len(view.items),
            was_edited=view.first_edit_seq > 0,
            window=window,
            decisions=self._runner.last_decisions,
        )

    def list_logged(self, last_id: str, make_host: Callable[[Message], HostObject]) -> list[HostItem[HostObject]]:
        """The messages up to this one as items of a list, for a host that does not send them. This reads the log.

        Those of the last list are the same objects again, if they were made here.
        """
        path, last_items = self._tree.list_path(last_id), self._logged
        size = next(
            (n for n, (one, item) in enumerate(zip(path, last_items, strict=False)) if item.message.id != one), None
        )
        items = last_items[: min(len(path), len(last_items)) if size is None else size]
        for ident in path[len(items) :]:
            payload = next(iter(self._live.log.read(seq_of_id(ident)))).payload
            assert isinstance(payload, HostMessageAdded)
            items.append(HostItem(make_host(payload.message), payload.message, payload.key))
        self._logged = items
        return items[:]

    def _start_walk(self, view: View) -> ThinkingWalk:
        """What decides which signed data is sent. Until anything of ours was sent, all that the host has is."""
        adds = self._adds_to_requests
        return ThinkingWalk(
            view,
            binds_prefix=self.binds_prefix,
            is_foreign=adds,
            is_open=not (adds or view.first_edit_seq),
            first_edit_seq=view.first_edit_seq,
            takes_blocks=self._live.dialect.find_compaction(self._live.model) is not None,
        )

    @property
    def binds_prefix(self) -> bool:
        """Whether signed thinking is bound to everything before it."""
        return self.refuses_edited_thinking or self._live.dialect.binds_prefix(self._live.model)

    @property
    def sent_anything_of_ours(self) -> bool:
        """Whether anything that the host does not know was ever sent: an edit, a hidden exchange, another tool."""
        return bool(self._live.view.first_edit_seq) or self._adds_to_requests

    @property
    def _adds_to_requests(self) -> bool:
        tree = self._tree
        return self._fixed_is_changed or tree.has_added_tool or tree.has_hidden_calls or tree.has_handoff

    def _arrange(self, items: Sequence[HostItem[HostObject]], view: View) -> "_Arrangement[HostObject]":
        """The view in terms of the host's list. If both have only grown, the last arrangement is continued."""
        arrangement, hidden_ids = self._arrangement, self._tree.hidden
        is_known = arrangement is not None and arrangement.view_items is view.items
        if arrangement is None or not is_known or arrangement.hidden_count != len(hidden_ids):
            items_before = _list_covered(view, items, self._places)
            arrangement = _Arrangement(view.items, len(hidden_ids), self._start_walk(view), items_before)
        arrangement.extend(items, self._places, hidden_ids)
        # Else the log has more messages of the host. They are shown as inserted, until the host has them in its list.
        is_complete = self._tree.tip == (self._ids[-1] if self._ids else ROOT)
        self._arrangement = arrangement if is_complete else None
        return arrangement

    def record_reply(
        self,
        request: FollowedRequest[HostObject],
        reply: Message | None,
        usage: Mapping[str, object] | None = None,
        *,
        key: str = "",
        notes: Sequence[NoteAdded] = (),
        partial: bool = False,
        cleared: int = 0,
    ) -> None:
        """Append the answer to a request, notes about it, and its usage.

        A `partial` answer is kept, but is not part of the list. `cleared` is how many tokens of the request the
        provider itself left out before the model read it, as it reports them.
        """
        if reply is None and not usage:
            return
        with self._lock:
            # Made again for every attempt: another process may have recorded its own answer to the same request.
            self._live.append_all(
                lambda first: _complete(
                    self._reply_payloads(request, reply, usage, key, notes, partial, cleared), first
                )
            )

    async def record_reply_async(
        self,
        request: FollowedRequest[HostObject],
        reply: Message | None,
        usage: Mapping[str, object] | None = None,
        *,
        key: str = "",
        notes: Sequence[NoteAdded] = (),
        partial: bool = False,
        cleared: int = 0,
    ) -> None:
        """The same for async code."""
        async with self._async_lock:
            await self._calls.run(
                self.record_reply, request, reply, usage, key=key, notes=notes, partial=partial, cleared=cleared
            )

    def _reply_payloads(
        self,
        request: FollowedRequest[HostObject],
        reply: Message | None,
        usage: Mapping[str, object] | None,
        key: str,
        notes: Sequence[NoteAdded],
        partial: bool,
        cleared: int,
    ) -> list[EventPayload]:
        """The events of a reply. If the conversation has meanwhile gone another way, it is not shown."""
        view = self._live.view
        payloads: list[EventPayload] = [*self._runner.list_held_notes(view)]
        head, own_count = request.measured
        if not partial and (cleared or view.cleared_tokens):
            own = own_count * cleared // max(1, read_usage(usage or {}).input_tokens + cleared)
            own_count = max(1, own_count - own)
            notes = [*notes, ContextCleared(own).pack()]
        if reply is not None and (partial or request.tip != self._tree.tip):
            stored_reply = msgspec.structs.replace(
                reply, agent_visible=False, kind=INTERRUPTED if partial else reply.kind
            )
            payloads.append(MessageAdded(stored_reply, 0))
        elif reply is not None:
            payloads.append(self._make_payload(reply, key or hash_message(reply)))
            if request.birth and has_signed_data(reply):
                payloads.append(AnswerBirth(request.birth).pack())
            payloads += notes
        if usage:  # that of an answer that compacts is about what the provider made of the request
            size = 0 if reply is not None and compacts_history(reply) else own_count
            payloads += self.session.build_usage_events(usage, (head, size))
        return payloads


def _complete(payloads: Sequence[EventPayload], first: int) -> list[EventPayload]:
    """The payloads with the ids that messages get from their places in the log."""
    return [
        msgspec.structs.replace(what, message=msgspec.structs.replace(what.message, id=f"m{seq}"))
        if isinstance(what, MessageAdded)
        else what
        for seq, what in enumerate(payloads, first)
    ]


def _list_covered(
    view: View, items: Sequence[HostItem[HostObject]], places: Mapping[str, int]
) -> Sequence[HostItem[HostObject]]:
    """The host's messages before a compaction by the provider, which does not read them any more.

    They stay as the host sent them. Once the view was edited they are left out: thinking in them may be bound to
    what was sent then.
    """
    return items[: 0 if view.first_edit_seq else places.get(view.compaction_id, 0)]


class _Arrangement(Generic[HostObject]):
    """The items of a view in the order of the host's list; those of the engine stay after the item they follow.

    The engine moves a late result behind its call; the host's own order is kept where it has one. As long as an edit
    does not make another list of `view_items`, it only grows, and what is here is continued.
    """

    def __init__(
        self,
        view_items: Sequence[Item],
        hidden_count: int,
        walk: ThinkingWalk,
        items_before: Sequence[HostItem[HostObject]] = (),
    ) -> None:
        """`items_before` are the host's messages that the provider has replaced: they are sent, but not in the view."""
        self.view_items = view_items
        self.walk = walk
        self.hidden_count = hidden_count
        self._size = 0  # of what is arranged
        self._shown: list[Shown[HostObject]] = [Shown("kept", item, item.message, True) for item in items_before]
        self._order = list(range(len(items_before)))
        self._after = len(items_before) - 1
        self._is_ordered = self._is_unchanged = True

    def extend(
        self, host_items: Sequence[HostItem[HostObject]], places: Mapping[str, int], hidden_ids: AbstractSet[str]
    ) -> None:
        """Arrange what was added to the view. `places` says where a message of the log is in the host's list.

        Messages with `hidden_ids`, which the host does not know, are left out if it did not put them into its list.
        """
        for item in self.view_items[self._size :]:
            message, ident = item.message, item.message.id
            place = places.get(ident)
            if place is None and ident in hidden_ids:
                continue
            signed = self.walk.step(item, host_items[place].message if place is not None else None)
            if place is not None:
                entry = Shown("replaced" if item.edited else "kept", host_items[place], message, signed)
                self._is_ordered = self._is_ordered and place > self._after
                if item.edited or (not signed and has_signed_data(host_items[place].message)):
                    self._is_unchanged = False
                self._after = place
            else:
                entry = Shown("inserted", None, message, signed)
                self._is_unchanged = False
            self._shown.append(entry)
            self._order.append(self._after)
        self._size = len(self.view_items)

    def is_own_list(self, size: int) -> bool:
        """Whether these are the `size` messages of the host, none of them edited."""
        return self._is_unchanged and len(self._shown) == size

    def list_shown(self) -> list[Shown[HostObject]]:
        if self._is_ordered:
            return self._shown[:]
        return [self._shown[number] for number in sorted(range(len(self._shown)), key=self._order.__getitem__)]
