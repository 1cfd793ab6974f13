"""The stage `sweep`: shorten everything old at once, but seldom, so that the cached prefix stays valid for long.

1. The newest groups stay whole.
2. User messages stay word for word; only if all together take too much, the longest are shortened. Long reports that a
   client put between them are shortened, too, and settings of the client that it has sent anew since.
3. Of older work stay the calls, lines and regions that are likeliest to be needed again (`core/sweep/choice.py`). Calls
   stay verbatim or not at all, without thinking; results are shortened. The answer before the newest request stays.
4. The other groups are dropped, and a note in their place says in one line each what was done.

What an earlier sweep left is not touched again while that is the cheaper way to free enough: the cached prefix then
stays valid up to there. It is swept, too, if the best of the new work would not fit otherwise, such as a large file
that the agent has just written.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Final

import msgspec

from tidegate.core.budget import Budget
from tidegate.core.config.values import Share
from tidegate.core.edits import Insert
from tidegate.core.ledger.writer import MAX_LEDGER_TOKENS
from tidegate.core.messages import (
    CLIENT_NOTE,
    NOTE,
    STATE_NOTE,
    Call,
    MarkedText,
    Message,
    Part,
    Text,
    Thinking,
    calls_of,
    common_mark,
    mark_text,
    result_of,
    text_of,
)
from tidegate.core.outcome import NO_OUTCOME, Outcome
from tidegate.core.recognition.documents import find_rule_sections, instructions_read_by
from tidegate.core.stages.guard import squeeze_group
from tidegate.core.stages.notices import HINT_PREFIX
from tidegate.core.stages.view_draft import ViewDraft
from tidegate.core.state_note.note import newest_state_note
from tidegate.core.state_note.originals import changes_of
from tidegate.core.state_note.passages import list_outdated
from tidegate.core.sweep.choice import Appraisal, Choice, Kept
from tidegate.core.sweep.cost_model import SweepCost
from tidegate.core.sweep.gap_notes import NOTE_TOKENS, Gap, limit_note_tokens, make_gap_notes
from tidegate.core.sweep.group_notes import (
    describe_group,
    find_failed_calls,
    groups_of_note,
    is_group_note,
    is_quoted,
    is_remark,
    quote_answer,
    quote_document,
    requote,
    tell_older_passages,
    tells_edit,
    tells_question,
)
from tidegate.core.sweep.key_lines import GAP_MARK
from tidegate.core.sweep.reading import forget_left_groups, get_reading
from tidegate.core.sweep.shortening import clip_message, make_block_pointer, shorten_result, stays_whole
from tidegate.core.text.client_texts import find_attached_file, is_skill
from tidegate.core.text.lazy_pattern import LazyPattern
from tidegate.core.text.prose import count_headings
from tidegate.core.text.tool_calls import (
    call_target_of,
    changed_paths_of,
    file_name_of,
    is_content_argument,
    iterate_strings,
    parse_call_arguments,
)
from tidegate.core.turns import Group, split_groups
from tidegate.core.view import View

_NOTE_SHARE: Final = 0.045  # of the room: the most that notes and short answers take
_RANGE_SHARE: Final = 0.05  # of the room: the most that ranges take, which join older lines of notes
_LEDGER_FILL: Final = 0.75  # of its share: what is reserved for the ledger, which often takes less than all of it
_MAX_TAIL_TOKENS: Final = 32_000  # 91% of the texts that agents edit again were last seen within the last 30,000 tokens
_MIN_TAIL: Final = 0.1  # of what a sweep leaves: what stays whole if user messages take the rest
_MAX_TAIL: Final = 4  # times `tail`: the most that stays whole for the sake of a large group
_ANSWER_CHARS: Final = 600  # an answer up to this length stays
_CONCLUSION_SHARE: Final = 0.1  # of the room: what answers may always take, whole or quoted in a note
_CONCLUSIONS_OF_WORK: Final = 0.6  # of what is left for old work: what they may take if that is more
_CONCLUSION_PART: Final = 0.25  # of what is left of that: the most that one of them takes, the newest first
_REPORT_PART: Final = 0.4  # the same for an answer with several headings: a plan, a review, a report
_REPORT_HEADINGS: Final = 3
_LONGEST_CONCLUSION: Final = 1_200  # tokens
_WRITTEN_PART: Final = 0.3  # of what answers may take: for documents that the agent wrote
_PROSE_FILE: Final = LazyPattern(r"\.(?:md|markdown|rst|adoc|txt)$", re.I)
_REMARK_SHARE: Final = 0.08  # of the room and of what is swept: the most that remarks take
_DOCUMENT_SHARE: Final = 0.1  # of the room: the most that documents with instructions take
_REPEATED_CHARS: Final = 1_500  # a longer text that is sent again, such as the template of a command, stays once
_LEAST_CONCLUSION: Final = 160  # characters: of a shorter one the line of a note has all
_LAST_ANSWER_SHARE: Final = 0.08  # of the room: the answer before the newest request stays up to this size
_BLOCK_CHARS: Final = 4_000  # of an old block that a client put into the user's messages
_REPORT_TAG: Final = LazyPattern(r"notif|remind|report|result|context|output|stdout|stderr|caveat|instructions", re.I)
_BLOCK: Final = LazyPattern(r"\s*<([A-Za-z][\w -]{0,40})>.*</\1>\s*", re.DOTALL)
_MAX_LEVEL: Final = 0.65  # of the room: the most that a sweep leaves
_MAX_LEVEL_OF_NEW: Final = 0.64  # of a sweep of only what is new: with its ledger it often ends a little higher
_MAX_MISSED: Final = 2.0  # how often the worth of all that stays: if the best group left out has more, all is swept
_MIN_WORK: Final = 0.2  # of the level: what old work gets even beside large results that the model has not seen yet
_MAX_WITH_NEW: Final = 0.85  # of the room: the most that a sweep leaves for that reason
_MAX_FILL: Final = 0.9  # of the room: above that even new results are cut
_KEPT_OF_NEW: Final = (0.15, 0.45)  # of what came since the last sweep, if only that is swept: the least, and the most


def sweep(
    view: View,
    budget: Budget,
    *,
    fidelity: float = 0.63,
    tail: Share = 0.07,
    ledger: Share = 0.0,
    most: Share = 1.0,
) -> Outcome:
    """Shorten everything old down to `fidelity`, a share of the room, and to at most `most` of it.

    `tail` and `ledger` are shares of the room: for the newest groups, which stay whole, and for the ledger. The room is
    here what is worth holding (`Budget.held_room`); new results are cut only if the history would not fit.
    """
    forget_left_groups(view)
    units, room = split_groups(view), budget.held_room
    hard_limit, tail_tokens = int(budget.room * _MAX_FILL), min(int(room * tail), _MAX_TAIL_TOKENS)
    ledger_tokens = min(int(room * ledger), MAX_LEDGER_TOKENS)
    level, largest = int(room * min(fidelity, most, _MAX_LEVEL)), int(room * min(most, _MAX_WITH_NEW))
    first = _find_tail(units, view, tail_tokens, level, ledger_tokens + limit_note_tokens(room, _NOTE_SHARE))
    reserved = int(ledger_tokens * _LEDGER_FILL)
    (price, start), *others = _rank_sweeps(units, view, budget, first, level)
    if not any(unit.items[0].message.role == "assistant" for unit in units[start:first]):
        return NO_OUTCOME
    spare = sum(unit.tokens for unit in units[first:]) - tail_tokens
    plan = _Sweep(view, budget, units, start, first)
    level = plan.fit(price.level, min(price.level + spare, largest), reserved)
    if others and plan.chosen.missed > _MAX_MISSED * plan.chosen.worth:
        ((price, start),) = others
        plan = _Sweep(view, budget, units, start, first)
        level = plan.fit(price.level, min(price.level + spare, largest), reserved)
    draft = plan.draft
    if draft.tokens > hard_limit - reserved and view.newest_request not in units[-1].ids:
        squeeze_group(draft, units[-1], hard_limit - reserved, budget)
    if not draft.edit_count:
        return NO_OUTCOME
    swept = "what came since the last sweep" if start else "everything old"
    return Outcome((*draft.edits(), *plan.notes), why=f"sweep of {swept}, {price.at_level(level)}")


def _clip_attached(message: Message, chars: int) -> tuple[Part, ...]:
    """About `chars` characters of a message with files; what the user wrote behind them in parts of its own stays."""
    first = next((at for at, part in enumerate(message.parts) if find_attached_file(_text_of_part(part)) >= 0), 0)
    words = [part for part in message.parts[first + 1 :] if _may_be_words(part)]
    if not words:
        return clip_message(message, chars)
    rest = tuple(part for part in message.parts if part not in words)
    return (*clip_message(msgspec.structs.replace(message, parts=rest), chars), *words)


def _clip_skill(message: Message, text: str) -> tuple[Part, ...]:
    """The first line of a skill, and of the rest its sections with rules in `_BLOCK_CHARS`."""
    lines = text.split("\n")
    places = sorted({0, *find_rule_sections(text, _BLOCK_CHARS)})
    shown = [line for before, at in pairwise([-1, *places]) for line in (*([GAP_MARK] * (at > before + 1)), lines[at])]
    notice = f"[{len(places)} of {len(lines)} lines of this skill; recall {message.id} has all of it]"
    return (mark_text("\n".join([*shown, notice]), common_mark(message.parts)),)


def _may_be_words(part: Part) -> bool:
    is_marked = isinstance(part, MarkedText) and not part.typed
    return isinstance(part, Text) and not is_marked and len(part.text) < _BLOCK_CHARS


def _text_of_part(part: Part) -> str:
    return part.text if isinstance(part, Text) else ""


def _is_of_client(message: Message) -> bool:
    """Whether the user or their client wrote the message, not the engine."""
    return message.role == "user" and message.kind in ("", CLIENT_NOTE)


def _find_tail(units: Sequence[Group], view: View, tokens: int, level: int, reserved: int) -> int:
    """The index of the first group that stays whole. Messages that the model has not seen yet always do.

    Of the groups before them the newest stay until they have `tokens`; the last of these only if they have at most
    `_MAX_TAIL` times that. If the user's messages, with a note after each, leave less below the level, fewer stay.
    """
    user_tokens = sum(unit.tokens + NOTE_TOKENS for unit in units if _is_of_client(unit.items[0].message))
    new = {item.message.id for item in view.items_since_reply()}
    free = max(level - reserved - user_tokens, int(level * _MIN_TAIL))
    used, first = 0, len(units)
    while first > 0:
        unit = units[first - 1]
        if not new.isdisjoint(unit.ids):
            free -= unit.tokens
        elif first < len(units) and (used >= tokens or used + unit.tokens > min(tokens * _MAX_TAIL, free)):
            break
        else:
            used += unit.tokens
        first -= 1
    return first


def _rank_sweeps(
    units: Sequence[Group], view: View, budget: Budget, first: int, level: int
) -> list[tuple[SweepCost, int]]:
    """The sweeps to try, each with its first group: only of what came since the last one, if cheaper; of everything."""
    room, growth = budget.held_room, max(1.0, view.total_tokens_said / max(1, view.reply_count))
    every = SweepCost(level, level, room, growth, budget.prices)
    settled = count = 0
    while settled < first and count + len(units[settled].items) <= view.settled_count:
        count += len(units[settled].items)
        settled += 1
    lean = sum(unit.tokens for unit in units[:settled]) + sum(item.tokens for item in view.ledger_items)
    new = sum(unit.tokens for unit in units[settled:first])
    whole = sum(unit.tokens for unit in units[first:])
    least, most = (lean + whole + int(new * share) for share in _KEPT_OF_NEW)
    highest = int(room * _MAX_LEVEL_OF_NEW)
    if not settled or not new or max(level, least) > highest:
        return [(every, 0)]
    level = min(max(level, most), highest)
    some = SweepCost(level, level - lean, room, growth, budget.prices)
    return [(some, settled), (every, 0)] if some.rate < every.rate else [(every, 0)]


class _Sweep:
    """One sweep of the groups from `start` up to `first`."""

    def __init__(self, view: View, budget: Budget, units: Sequence[Group], start: int, first: int) -> None:
        self._view, self._budget, self._units = view, budget, units
        self._old = range(start, first)
        self.draft = ViewDraft(view, budget)
        self.notes: list[Insert] = []
        self.chosen = Choice({}, 0.0, 0.0)
        shown = [text_of(item.message) for item in view.items if item.message.kind == STATE_NOTE]
        note = newest_state_note(view) if shown else None
        self._shown_note = shown[-1] if shown else ""
        self._passages = note.passages if note else ()
        self._said: dict[int, str] = {}  # the line for each group of calls or answer
        self._remarks: dict[int, list[str]] = {}  # the lines for what was said beside the calls of a group
        self._notes: dict[int, list[str]] = {}  # the lines of each earlier note
        self._last_answer = self._find_last_answer()
        self._answers: set[int] = set()  # those that stay whole
        self._documents: dict[int, Kept] = {}  # readings of documents with instructions: the lines that stay
        self._loop_start = next((n for n in self._old if view.loop_start and view.loop_start in units[n].ids), -1)
        for number in self._old:
            message = units[number].items[0].message
            if message.role == "assistant":
                reading = get_reading(view, units[number])
                line = reading.line
                if not calls_of(message):
                    reply = units[number + 1].items[0].message if number + 1 < len(units) else None
                    line = describe_group(units[number], reply)
                self._said[number] = line + self._tell_outdated(units[number])
                self._remarks[number] = list(reading.remarks)
            elif is_group_note(message):
                self._notes[number] = groups_of_note(message)
            elif message.kind == NOTE and text_of(message).startswith(HINT_PREFIX):
                self.draft.drop(units[number])
        lines = [
            line for group in (*self._remarks.values(), *self._notes.values()) for line in group if is_remark(line)
        ]
        self._remark_tokens = {line: budget.counter.count_text(line) + 1 for line in lines}

    def _tell_outdated(self, unit: Group) -> str:
        """Which passages of the shown state note this work changed. The note stays as it is, and the change leaves."""
        if not self._shown_note:
            return ""
        changes = changes_of(unit.items[0].message, find_failed_calls(unit))
        return tell_older_passages(list_outdated(self._passages, self._shown_note, changes))

    def _find_last_answer(self) -> int:
        """The answer that the newest request may refer to, if it would leave; -1 if there is none."""
        at = next((n for n in reversed(range(len(self._units))) if self._view.newest_request in self._units[n].ids), 0)
        for number in range(at - 1, -1, -1):
            message = self._units[number].items[0].message
            if message.role == "assistant":
                small = self._units[number].tokens <= int(self._budget.held_room * _LAST_ANSWER_SHARE)
                return number if number in self._old and small and not calls_of(message) else -1
        return -1

    def _shorten_client_blocks(self) -> None:
        """Shorten what a client put between the user's messages, as one tagged block: settings, reports, notifications.

        A block that a later one with the same tag replaces says what no longer holds, so only its pointer stays.
        """
        later: set[tuple[str, str]] = set()
        for number in reversed(range(len(self._units))):
            item = self._units[number].items[0]
            message = item.message
            is_said = _is_of_client(message) or (message.role == "system" and not message.kind)
            block = _BLOCK.fullmatch(text_of(message)) if is_said and not common_mark(message.parts) else None
            if block is None:
                continue
            key = (message.role, block[1])
            is_replaced = key in later and message.role == "system"
            later.add(key)
            long = len(text_of(message)) > _BLOCK_CHARS and _REPORT_TAG.search(block[1])
            if number in self._old and message.id != self._view.newest_request and (is_replaced or long):
                parts = make_block_pointer(message, block[1]) if is_replaced else clip_message(message, _BLOCK_CHARS)
                self.draft.replace(item, parts)

    def _shorten_attached_files(self) -> None:
        """Shorten files that a client attached to old messages of the user: they are readings, and soon out of date."""
        for number in self._old:
            item = self._units[number].items[0]
            text = text_of(item.message)
            place = find_attached_file(text) if _is_of_client(item.message) else -1
            if place >= 0 and len(text) - place > _BLOCK_CHARS and item.message.id != self._view.newest_request:
                self.draft.replace(item, _clip_attached(item.message, place + _BLOCK_CHARS))

    def _shorten_older_skills(self) -> None:
        """Of skills that were followed by another one only the sections with rules stay."""
        numbers = [n for n, unit in enumerate(self._units) if is_skill(text_of(unit.items[0].message))]
        for number in numbers[:-1]:
            item = self._units[number].items[0]
            text = text_of(item.message)
            if number in self._old and len(text) > _BLOCK_CHARS:
                self.draft.replace(item, _clip_skill(item.message, text))

    def _shorten_user_messages(self, room: int) -> None:
        """Shorten the longest old user messages, all to the same length, until all together fit."""
        old = (self._units[number] for number in self._old)
        user_groups = [u for u in old if _is_of_client(u.items[0].message) and u.last_id != self._view.newest_request]
        before = sum(u.tokens for u in self._units[: self._old.start] if _is_of_client(u.items[0].message))
        sizes = sorted(map(self.draft.group_cost, user_groups))
        cap, left = max(sizes, default=0), max(room - before, room // 8)
        if sum(sizes) <= left:
            return
        for number, size in enumerate(sizes):
            cap = left // (len(sizes) - number)
            if size > cap:
                break
            left -= size
        for unit in user_groups:
            item = unit.items[0]
            if self.draft.cost(item.message.id) > cap:
                chars = int(len(text_of(item.message)) * cap / item.tokens) - 60
                self.draft.replace(item, clip_message(item.message, max(chars, 100)))

    def fit(self, level: int, largest: int, reserved: int) -> int:
        """Shorten and choose what stays, so that the view has `level` tokens, `reserved` of them for the ledger.

        If what must stay leaves too little for old work, the level is raised up to `largest`. Returns the level.
        """
        room = self._budget.held_room
        self._leave_repeated_texts()
        self._shorten_client_blocks()
        self._shorten_attached_files()
        self._shorten_older_skills()
        self._shorten_user_messages(self._budget.user_room)
        cost = {number: self._budget.counter.count_text(line) + 1.0 for number, line in self._said.items()}
        note_tokens = limit_note_tokens(room, _NOTE_SHARE)
        said_tokens = sum(tokens for line, tokens in self._remark_tokens.items() if not tells_edit(line))
        remark_tokens = min(self._remark_room(room), said_tokens)
        leaving = (number for number in (*self._said, *self._notes) if number != self._last_answer)
        workers = sum(self._units[number].tokens for number in leaving)
        notes = reserved + min(note_tokens, sum(cost.values())) + remark_tokens
        work_room = level - notes - self.draft.tokens + workers
        answer_room = max(room * _CONCLUSION_SHARE, work_room * _CONCLUSIONS_OF_WORK)
        written = self._keep_written_documents(int(answer_room * _WRITTEN_PART))
        workers -= written + self._keep_conclusions(int(answer_room) - written)
        workers -= self._keep_documents(int(room * _DOCUMENT_SHARE))
        others = notes + self.draft.tokens - workers
        level = max(level, min(int(others + level * _MIN_WORK), largest))
        appraisal = Appraisal(self._units, self._old.start, self._old.stop, self._view, cost)
        self._fit_work(appraisal, level - reserved, level - others, note_tokens)
        return level

    def _keep_conclusions(self, left: int) -> int:
        """Choose which answers stay, whole or quoted in a note, in `left` tokens. Returns what they take.

        An answer that ends a turn is the summary of it that the agent itself wrote. The newest ones come first; each
        takes at most a part of what is left, so that older ones stay with less.
        """
        spent = 0
        per_token = self._budget.counter.count_text
        for number in reversed(self._old):
            if number in self._notes:
                lines = self._notes[number]
                for at in reversed(range(len(lines))):
                    if is_quoted(lines[at]):
                        lines[at] = requote(lines[at], _to_chars(_share_of(lines[at], left - spent)))
                        spent += per_token(lines[at]) if is_quoted(lines[at]) else 0
            elif number in self._said and number != self._last_answer:
                unit = self._units[number]
                text = text_of(unit.items[0].message)
                if calls_of(unit.items[0].message) or len(text) <= _LEAST_CONCLUSION:
                    continue
                most = _share_of(text, left - spent)
                if unit.tokens <= most:
                    self._answers.add(number)
                    spent += unit.tokens
                else:
                    quotation = quote_answer(unit.items[0].message.id, text, _to_chars(most))
                    if is_quoted(quotation) or not tells_question(self._said[number]):
                        self._said[number] = quotation
                    spent += per_token(quotation) if is_quoted(quotation) else 0
        return spent

    def _keep_written_documents(self, left: int) -> int:
        """Quote the newest documents that the agent wrote, such as plans and specifications: like an answer that ends a
        turn they say what was decided. Returns what they take.
        """
        spent = 0
        changed: set[str] = set()  # by later calls
        for number in reversed(range(len(self._units))):
            unit = self._units[number]
            failed = find_failed_calls(unit)
            for call in calls_of(unit.items[0].message):
                if call.id in failed or not call_target_of(call).writes:
                    continue
                paths = changed_paths_of(call)
                text = _find_written_prose(call) if number in self._said else ""
                if text and changed.isdisjoint(paths):
                    name = file_name_of(paths[0])
                    chars = _to_chars(_share_of(text, left - spent))
                    quotation = quote_document(unit.items[0].message.id, name, text, chars)
                    if is_quoted(quotation):
                        self._remarks[number].append(quotation)
                        spent += self._budget.counter.count_text(quotation)
                if call_target_of(call).whole_file:
                    changed.update(paths)
        return spent

    def _keep_documents(self, left: int) -> int:
        """Choose what stays of documents with instructions, by their newest reading: all, or the sections with rules.

        Returns what they take.
        """
        spent = 0
        seen: set[str] = set()
        changes: list[str] = []  # what later calls changed, files or folders
        for number in reversed(range(len(self._units))):
            unit = self._units[number]
            calls = {call.id: call for call in calls_of(unit.items[0].message)}
            for item in unit.items[1:]:
                result = result_of(item.message)
                path = instructions_read_by(calls[result.call_id]) if result and result.call_id in calls else ""
                name = file_name_of(path) if path.count("/") < 2 else path
                if not path or name in seen or any(map(partial(_is_same_or_inside, path), changes)):
                    continue
                seen.add(name)
                text = text_of(item.message)
                per_char = max(1, item.tokens) / max(1, len(text))
                places = find_rule_sections(text, int((left - spent) / per_char)) if number in self._said else ()
                if places:
                    self._documents.setdefault(number, {})[item.message.id] = set(places)
                    spent += int(per_char * sum(len(line) + 1 for line in _lines_at(text, places)))
            changes += (path for call in calls.values() for path in changed_paths_of(call))
        return spent

    def _leave_repeated_texts(self) -> None:
        """A long text that was sent again later in the same words leaves a pointer to where it stands."""
        later: dict[str, str] = {}
        for number in reversed(range(len(self._units))):
            item = self._units[number].items[0]
            text = text_of(item.message)
            if not _is_of_client(item.message) or len(text) < _REPEATED_CHARS:
                continue
            again = later.setdefault(text, item.message.id)
            if number in self._old and item.message.id not in (again, self._view.newest_request):
                pointer = f"[the same text as in {again}, word for word; recall {item.message.id} has all of it]"
                self.draft.replace(item, (mark_text(pointer, common_mark(item.message.parts)),))

    def _fit_work(self, appraisal: Appraisal, level: int, room: float, note_tokens: int) -> None:
        """Find the `room` for calls and lines with which the view has `level` tokens: their cost is an estimate."""
        # What a choice really takes is known only when it is made: neighboring lines share a marker, groups that leave
        # need a line of a note, and lines of notes are joined. So each round corrects the room by what the one before
        # took too much, until the view is within 2% of the level. Each round goes over all old groups, hence at most
        # five; if they are not enough, the guard makes the view fit.
        untouched = self.draft
        was_over = False
        over = 0
        for _ in range(5):
            before = self.draft, self.chosen, self.notes
            self.draft = untouched.copy()
            self.chosen = appraisal.choose(room)
            if was_over and over <= level // 25 and self.chosen.missed > _MAX_MISSED * self.chosen.worth:
                self.draft, self.chosen, self.notes = before  # a little too much, but with what is worth most
                return
            # The answer before the newest request and the start of a running loop stay whatever they are worth. A
            # loop without its signed beginning is refused by the provider.
            for number in (self._last_answer, self._loop_start):
                if number >= 0:
                    self.chosen.groups.setdefault(number, {})
            for number, sections in self._documents.items():
                self.chosen.groups.setdefault(number, {}).update(sections)
            self._apply(self.chosen.groups, max(0, note_tokens))
            over = self.draft.tokens + sum(note.tokens for note in self.notes) - level
            is_all = over <= 0 and (room <= 0 or was_over)  # more room would only bring back what was too much
            if abs(over) <= level // 50 or is_all or (over > 0 and room <= 0 and note_tokens <= 0):
                return
            was_over = was_over or over > 0
            if room <= 0:  # no work is left that could leave, so the notes get shorter
                note_tokens -= over
            room -= over

    def _apply(self, kept: Mapping[int, Kept], note_tokens: int) -> None:
        """Shorten the groups of which something stays, drop the others, and write the notes."""
        gaps: list[Gap] = []
        in_gap = False
        shown_id = self._units[self._old.start - 1].last_id if self._old.start else ""
        left = note_tokens
        answers = set(self._answers)
        for_answers = note_tokens // 2
        # Short answers first, the newest first: one costs little more than its line in a note, and says it in the
        # agent's own words. At most half of the tokens for notes, so that the work around them is still named.
        for number in reversed(self._old):
            message = self._units[number].items[0].message
            if number in self._said and number not in kept and number not in answers and not calls_of(message):
                size = self.draft.group_cost(self._units[number])
                if len(text_of(message)) <= _ANSWER_CHARS and size <= for_answers and not is_quoted(self._said[number]):
                    for_answers -= size
                    left -= size
                    answers.add(number)
        # Then in the order of the view: groups that leave one after the other share a note, which stands where the
        # first of them was. An earlier note leaves with them, and its lines go into the new one.
        lines_left = self._find_lines_left({*kept, *answers}, self._budget.held_room if note_tokens else 0)
        for number in self._old:
            unit = self._units[number]
            lines = lines_left.get(number)
            if lines is None:
                in_gap = False
                if number in self._said:
                    thinks = 0 <= self._loop_start <= number
                    _shorten_group(self.draft, unit, kept.get(number, {}), keeps_thinking=thinks)
                shown_id = unit.last_id
                continue
            self.draft.drop(unit)
            if in_gap:
                gaps[-1] = gaps[-1]._replace(last_id=unit.last_id, lines=gaps[-1].lines + lines)
            else:
                gaps.append(Gap(shown_id, unit.last_id, lines))
            in_gap = True
        gaps = [gap for gap in gaps if gap.lines]
        ranges = limit_note_tokens(self._budget.held_room, _RANGE_SHARE) if note_tokens > 0 else 0
        self.notes = make_gap_notes(gaps, left, self._budget, ranges=ranges, quotes=True)

    def _remark_room(self, room: int) -> int:
        swept = sum(self._units[number].tokens for number in self._old)
        return int(min(room, swept) * _REMARK_SHARE)

    def _find_lines_left(self, kept: Collection[int], room: int) -> dict[int, list[str]]:
        """The lines of notes for the groups that leave, and those of earlier notes. Of remarks the newest that fit."""
        left = self._remark_room(room)
        found: dict[int, list[str]] = {}
        for number in reversed(self._old):
            if number in self._notes:
                lines = self._notes[number]
            elif number in self._said and number not in kept:
                lines = [*self._remarks[number], *filter(None, (self._said[number],))]
            else:
                continue
            staying: list[str] = []
            for line in reversed(lines):
                left -= self._remark_tokens.get(line, 0)
                if left >= 0 or line not in self._remark_tokens:
                    staying.append(line)
            found[number] = staying[::-1]
        return found


def _find_written_prose(call: Call) -> str:
    """The text of a document that a call writes whole, or ""."""
    paths = changed_paths_of(call)
    if not call_target_of(call).whole_file or len(paths) != 1 or not _PROSE_FILE.search(paths[0]):
        return ""
    texts = [value for _, value in iterate_strings(parse_call_arguments(call)) if is_content_argument(value)]
    return texts[0] if len(texts) == 1 and len(texts[0]) >= _REPEATED_CHARS else ""


def _is_same_or_inside(path: str, change: str) -> bool:
    """Whether a path names what was changed, or a file in it, with or without the folders above."""
    whole, part = f"/{path.strip('/')}/", f"/{change.strip('/')}/"
    return part in whole or whole in part


def _lines_at(text: str, places: Collection[int]) -> list[str]:
    return [line for place, line in enumerate(text.split("\n")) if place in places]


def _share_of(answer: str, left: int) -> int:
    """The tokens that one answer may take of those that are left."""
    part = _REPORT_PART if count_headings(answer) >= _REPORT_HEADINGS else _CONCLUSION_PART
    return min(int(left * part), _LONGEST_CONCLUSION)


def _to_chars(tokens: int) -> int:
    """About as many characters as so many tokens, without what a note adds to each line."""
    return int(tokens * 3.7)


def _shorten_group(draft: ViewDraft, unit: Group, kept: Kept, *, keeps_thinking: bool) -> None:
    """In a running loop that must begin with thinking, all of it stays: a note may make any answer the first one."""
    for item in unit.items:
        message = item.message
        if result_of(message) is None:
            if keeps_thinking:
                continue
            draft.replace(item, tuple(part for part in message.parts if not isinstance(part, Thinking)))
        elif not stays_whole(message):
            draft.replace(item, shorten_result(message, kept.get(message.id, ())))
