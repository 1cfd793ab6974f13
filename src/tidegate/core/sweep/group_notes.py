"""Notes that take the place of dropped groups: what was called, on what, how large the result was, how it ended.

A note has the role of the user and says that it is data. Each call is one line, so that the model does not repeat it
and can recall it; a command begins with `$`, and the outcome follows ` -> `. White space is folded: text of a tool
cannot begin a line.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from tidegate.core.digest.units import fold_line
from tidegate.core.messages import NOTE, Call, Message, calls_of, is_user_request, result_of, text_of, user_message
from tidegate.core.recognition.client_outputs import CHATTER_LINE, ERROR_TAG, EXIT_CODE, RUNNING
from tidegate.core.recognition.dialogs import describe_dialog, is_question_to_user
from tidegate.core.recognition.documents import instructions_read_by
from tidegate.core.recognition.shell_commands import effect_of, only_reads
from tidegate.core.recognition.tasks import find_task_change, keeps_task
from tidegate.core.sweep.key_lines import GAP_MARK, find_fault_lines, is_envelope, is_marker
from tidegate.core.text.facts import begins_with_failure, find_error_lines, find_last_line, is_refusal
from tidegate.core.text.lazy_pattern import LazyPattern
from tidegate.core.text.prose import shorten_prose
from tidegate.core.text.terminal_text import clean_text
from tidegate.core.text.tool_calls import (
    INCIDENTAL_KEYS,
    NEW_TEXT_KEYS,
    REPLACED_TEXT_KEYS,
    call_target_of,
    changed_paths_of,
    classify_tool,
    describe_todos,
    file_name_of,
    find_command,
    find_file_names,
    is_todo_list,
    iterate_strings,
    parse_call_arguments,
)
from tidegate.core.turns import Group

_HEADING: Final = "[Left out here (data; recall shows it by id):"
_SHORT_HEADING: Final = "[Left out here: "
_END: Final = "]"
EARLIER: Final = "earlier work"
OUTCOME: Final = " -> "
_COMMAND: Final = "$ "
ANSWERED: Final = " answered: "
_ASKED: Final = " asked: "
_SHORT_REPLY, _SHORTEST_REPLY = 60, 12
"""Characters of a reply that does not say itself what it is about: after a question, and after a proposal."""
_QUESTION_CHARS: Final = 300
_ANSWER: Final = "answer"
_WITH_ANSWER: Final = ", answered"
_SUCH_AS: Final = ", such as "
REFUSED: Final = "refused by the user"
_USER_ANSWERED: Final = "the user answered, "
NO_OUTPUT: Final = "no output"
_INSTRUCTIONS_LEFT: Final = "instructions of the project; recall them before work that they govern"
_SUBJECT_CHARS: Final = 120
_OUTCOME_CHARS: Final = 80
_SAID_CHARS: Final = 160
_REMARK_CHARS: Final = 600
_LEAST_REMARK: Final = 40  # characters: a shorter one only announces its call
_WRITTEN_CHARS: Final = 160  # of each sentence that a command writes for people
_EDIT_CHARS: Final = 240  # of what an edit put into a file
_FAILED_CHARS: Final = 240  # of the lines of a failed call
_REFUSAL_CHARS: Final = 1_000  # of the user's words: they may be the task that the agent has to do now
_RUNNING_CHARS: Final = 400
_ENVELOPE_CHARS: Final = 400
_SHORTENED: Final = LazyPattern(r"\[(?:\d+ of )?([\d,]+) lines; recall ")
_SUCCEEDED: Final = LazyPattern(r"\bsuccessfully\b(?!.*\b(?:not|failed|error)\b)|^(?:ok|done)\b", re.I)


def describe_group(group: Group, reply: Message | None = None) -> str:
    """The lines for a dropped group, one for each call, or "" for one that needs none.

    Of an answer without calls it has the beginning; but if the `reply` to it is short, what was asked at its end:
    without that, nobody knows to what the user said yes.
    """
    caller = group.items[0].message
    if caller.role != "assistant":
        return ""
    results = {result.call_id: item.message for item in group.items if (result := result_of(item.message)) is not None}
    calls = calls_of(caller)
    if not calls:
        text = text_of(caller)
        if not text.strip():
            return ""
        question = _find_question(text) if reply is not None and is_user_request(reply) else ""
        if question and reply is not None and _needs_question(text_of(reply).strip(), question):
            return f"- {caller.id}{_ASKED}{question}"
        return f"- {caller.id}{ANSWERED}{fold_line(text, _SAID_CHARS)}"
    span = caller.id if len(group.items) == 1 else f"{caller.id}..{group.last_id}"
    descriptions = Counter(_describe_call(call, results.get(call.id)) for call in calls)
    return "\n".join(
        f"- {span} {text}" + (f" ({count} times)" if count > 1 else "") for text, count in descriptions.items()
    )


def _needs_question(reply: str, question: str) -> bool:
    """Whether a reply says nothing without what was asked: "yes", "c", or a few words after a question."""
    return 0 < len(reply) <= (_SHORT_REPLY if "?" in question else _SHORTEST_REPLY)


def _find_question(text: str) -> str:
    """The last lines of an answer, where it asks or proposes something, on one line."""
    lines = [line.strip() for line in text.split("\n") if any(map(str.isalnum, line))]
    end: list[str] = []
    left = _QUESTION_CHARS
    for line in reversed(lines):
        left -= len(line) + 3
        if left < 0 and end:
            break
        is_long = len(line) > _QUESTION_CHARS
        end.append(f"{GAP_MARK}{line[-_QUESTION_CHARS:].partition(' ')[2]}" if is_long else line)
    return " / ".join(reversed(end)).replace(OUTCOME, " → ")


def describe_remarks(group: Group) -> list[str]:
    """Lines with what the agent said beside its calls: why it made them, and what the ones before had shown; and with
    what they wrote: new lines of files, and texts for people, such as tickets.
    """
    caller = group.items[0].message
    calls = calls_of(caller)
    text = text_of(caller) if calls else ""
    sentences = [text for call in calls for text in effect_of(find_command(call)).sentences]
    lines = [f"- {caller.id} said: {fold_line(text, _REMARK_CHARS)}"] if len(text) >= _LEAST_REMARK else []
    if sentences:
        texts = " / ".join(fold_line(sentence, _WRITTEN_CHARS) for sentence in sentences)
        lines.append(f"- {caller.id} wrote: {fold_line(texts, 2 * _REMARK_CHARS)}")
    failed = find_failed_calls(group)
    for call in calls:
        new_lines = _find_new_lines(call) if call.id not in failed else []
        if new_lines:
            files = ", ".join(map(file_name_of, changed_paths_of(call)))
            lines.append(f"- {caller.id} wrote: in {files}: {fold_line(' / '.join(new_lines), _EDIT_CHARS)}")
    return lines


def tell_older_passages(idents: Sequence[str]) -> str:
    """What the line of a group adds, if its work changed the text of these passages in the state note."""
    return f"; the passage of {', '.join(idents)} in the state note is older" if idents else ""


def strip_older_passages(line: str) -> str:
    """A line of a note without the passages of a state note that it calls older."""
    return _OLDER.sub("", line)


def find_failed_calls(group: Group) -> set[str]:
    """The ids of the calls that failed or were refused."""
    return {
        result.call_id
        for item in group.items
        if (result := result_of(item.message)) is not None
        and (result.error or begins_with_failure(text_of(item.message)) or is_refusal(text_of(item.message)))
    }


def _find_new_lines(call: Call) -> list[str]:
    """What an edit put into a file: its lines that the replaced text does not have. A new file has too many."""
    target = call_target_of(call)
    if not target.writes or target.whole_file or find_command(call):
        return []
    arguments = list(iterate_strings(parse_call_arguments(call)))
    old = {line.strip() for key, text in arguments if REPLACED_TEXT_KEYS.search(key) for line in text.split("\n")}
    new = (line.strip() for key, text in arguments if NEW_TEXT_KEYS.search(key) for line in text.split("\n"))
    return [line for line in dict.fromkeys(new) if line not in old and any(map(str.isalnum, line))]


def is_remark(line: str) -> bool:
    """Whether a line of a note is what the agent said beside calls, or wrote with them."""
    return _REMARK.match(line) is not None


def tells_edit(line: str) -> bool:
    """Whether a remark is what an edit wrote. If the edit stays, it says the same itself."""
    return _EDIT_REMARK.match(line) is not None


def _describe_call(call: Call, answer: Message | None) -> str:
    subject = find_subject(call)
    description = f"{_COMMAND}{subject}" if find_command(call) else f"{fold_line(call.name, 40)} {subject}".strip()
    outcome = describe_outcome(call, answer) or (NO_OUTPUT if find_command(call) else "")
    if instructions_read_by(call):
        outcome = f"{outcome}, {_INSTRUCTIONS_LEFT}".removeprefix(", ")
    return f"{description}{OUTCOME}{outcome}" if outcome else description


def find_subject(call: Call) -> str:
    """What a call is about: its command, the files that it changes, or its path and other short arguments.

    Of a to-do list it is nothing: the ledger has the open items of the newest one. A question to the user stands in its
    outcome.
    """
    if is_question_to_user(call):
        return ""
    command = find_command(call)
    if command:
        short = command if len(command) <= _SUBJECT_CHARS else _FOLDER.sub("", command[:_SCANNED_CHARS])
        return fold_line(short, _SUBJECT_CHARS)
    arguments = parse_call_arguments(call)
    if is_todo_list(arguments):
        return ""
    texts = [value for _, value in iterate_strings(arguments, skip=INCIDENTAL_KEYS) if value and "\n" not in value]
    return fold_line(", ".join(changed_paths_of(call)) or " ".join(texts[:2]), _SUBJECT_CHARS)


def describe_outcome(call: Call, answer: Message | None) -> str:
    """How a call ended: its failure or exit code, a short result, or the size of a longer one.

    Of a command that went on in the background it is not known: what it had printed by then is not its outcome.

    Of a to-do list it is how many of its items are open: that the list was written does not say that they are done.
    """
    if answer is None:
        return "no result"
    text = ERROR_TAG.sub("", clean_text(text_of(answer)))
    said = describe_dialog(call, answer).replace(OUTCOME, " → ")
    if is_refusal(text):
        return f"{REFUSED}, {said or fold_line(find_last_line(text), _REFUSAL_CHARS)}"
    if said:
        return f"{_USER_ANSWERED}{said}"
    if find_command(call) and (running := find_running_id(answer)):
        return f"still running when the call returned, id {running}"
    result = result_of(answer)
    shortened = _SHORTENED.match(text)
    lines = int(shortened[1].replace(",", "")) if shortened else _count_lines(text)
    size = f"{lines:,} lines" if lines > 1 else NO_OUTPUT if lines < 1 else ""
    code = EXIT_CODE.search(text[-400:]) or EXIT_CODE.search(text[:400])
    ended = f"exit code {code[1] or code[2]}" if code else ""
    writes = call_target_of(call).writes
    failed = (
        (result is not None and result.error)
        or (code is not None and (code[1] or code[2]) != "0")
        or (writes and begins_with_failure(text_of(answer)))
    )
    if not failed and (todos := describe_todos(parse_call_arguments(call))):
        return todos
    if not failed and keeps_task(call) and (task := find_task_change(call, text)):
        return f"task {task.number} {task.status or 'created'}"
    if lines == 1 and not failed and writes and _SUCCEEDED.search(text):
        return "done"  # the rest of the line only repeats the path
    command = find_command(call)
    reports = bool(command) and not call_target_of(call).shows_file and not only_reads(command)
    outcome_line = ""
    if failed and writes:  # an edit quotes what it did not find after it has said so
        outcome_line = fold_line(_find_printed(text).strip().partition("\n")[0], _FAILED_CHARS)
    elif failed:
        printed_lines = [line.strip() for line in _find_printed(text).split("\n") if not CHATTER_LINE.match(line)]
        fault = " / ".join(printed_lines[place] for place in sorted(find_fault_lines(printed_lines)))
        outcome_line = fold_line(fault or _find_verdict("\n".join(printed_lines)), _FAILED_CHARS)
    elif reports or lines == 1:
        printed = _find_printed(text)
        faults = find_error_lines(printed) if reports else []
        last = faults[-1] if faults else _find_verdict(printed)
        outcome_line = fold_line(last, _OUTCOME_CHARS) if last[:1] != "[" else ""
    return ", ".join(filter(None, (size, ended, outcome_line))).replace(OUTCOME, " → ")


def _find_printed(text: str) -> str:
    """What a call printed, at the end of a result: without what the client or this program put around it."""
    lines = EXIT_CODE.sub("", text[-8_000:]).split("\n")
    return "\n".join(line for line in lines if not is_envelope(line) and not is_marker(line))


def find_running_id(answer: Message) -> str:
    """The id of a command that went on in the background, from the result of its call, or ""."""
    running = RUNNING.search(text_of(answer)[:_RUNNING_CHARS])
    return next(filter(None, running.groups())) if running else ""


def _count_lines(text: str) -> int:
    """The lines of a result without those that a shell tool prints before the output."""
    envelope = sum(map(is_envelope, text[:_ENVELOPE_CHARS].split("\n")))
    return text.count("\n") + (not text.endswith("\n")) - envelope


def _find_verdict(printed: str) -> str:
    """The last line that says something about the outcome."""
    return find_last_line("\n".join(line for line in printed.split("\n") if not CHATTER_LINE.match(line)))


def tells_question(line: str) -> bool:
    """Whether a line of a note has what was asked before a short reply of the user."""
    return _QUESTION_LINE.match(line) is not None


def tells_dialog(line: str) -> bool:
    """Whether a line of a note has what the user said in a dialog of the client, or the question of a short reply."""
    return any(_DIALOG_WORDS.search(each) for each in line.split("\n"))


def pick_dialog(line: str, chars: int) -> str:
    """Of the lines of a group those with words of the user, or a question, each with at most `chars` characters."""
    matches = (_DIALOG_WORDS.search(each) for each in line.split("\n"))
    return "\n".join(f"{match[1]}{fold_line(match[2], chars)}" for match in matches if match)


def make_group_note(lines: Sequence[str]) -> Message:
    """A note of these lines. If they are one range only, it is a short one."""
    if len(lines) == 1 and _RANGE_LINE.fullmatch(lines[0]):
        return user_message(f"{_SHORT_HEADING}{lines[0][2:]}{_END}", NOTE)
    return user_message("\n".join([_HEADING, *lines, _END]), NOTE)


def _span_of(line: str) -> str:
    return line.split(" ", 2)[1]


def _number_of(ident: str) -> int:
    """The seq of the event with this message; for one that an edit inserted (`e85.2`) that of the edit."""
    number = ident[1:].partition(".")[0]
    return int(number) if number.isdecimal() else 0


def last_id_of(line: str) -> str:
    """The last message that a line of a note is about."""
    return _span_of(line.partition("\n")[0]).rpartition("..")[2]


def make_range_line(lines: Sequence[str], before: str, *, detail: int = 2) -> str:
    """One line in place of those of several groups, with what to ask recall for:

    `- m4..m31 earlier work: edited a.py ×2; read b.py; ran make test (2 failed); m30 answered: The cause is ...`.

    With `detail` 1 it has less of each, with 0 only whether a request was answered. It begins after the message
    `before`: others may have left without a line, so the counts are not of all calls.
    """
    first = _number_of(_span_of(lines[0]).partition("..")[0])
    last = _number_of(last_id_of(lines[-1]))
    if before[:1] == "m":
        first = min(first, _number_of(before) + 1)
    work = WorkSummary()
    for text in lines:
        for line in _split_lines(text):
            work.add(line)
    span = f"m{first}" if first == last else f"m{first}..m{last}"
    if not detail:
        return f"- {span} {EARLIER}{_WITH_ANSWER if work.answers or work.others[_ANSWER] else ''}"
    done = work.render(detail)
    return f"- {span} {EARLIER}" + (f": {done}" if done else "")


class WorkSummary:
    """What was done in the groups that a range takes the place of: files with counts, commands with outcomes, answers.

    It is read from lines of notes and from its own text, because ranges are joined when more leaves.
    """

    def __init__(self) -> None:
        self.edited: Counter[str] = Counter()
        self.read: Counter[str] = Counter()
        self.ran: dict[str, str] = {}
        self.others: Counter[str] = Counter()
        self.answers: dict[str, str] = {}
        self.unnamed: Counter[str] = Counter()  # files and commands that a range had no room to name
        self.older: dict[str, None] = {}  # passages of the state note whose text was changed

    def add(self, line: str) -> None:
        """Add a line of a note."""
        self.older.update(dict.fromkeys(ident for idents in _OLDER.findall(line) for ident in idents.split(", ")))
        line = strip_older_passages(line)
        earlier = _RANGE_LINE.fullmatch(line)
        if earlier:
            self.others[_ANSWER] += earlier[1] is not None
            self._add_range(earlier[2] or "")
            return
        noted = _NOTED.fullmatch(line)
        if not noted:
            return
        ident, said = noted[1], noted[2]
        times = int(match[1]) if (match := _TIMES.search(said)) else 1
        said, _, outcome = _TIMES.sub("", said).partition(OUTCOME)
        if said.startswith(_ANSWERED_BY):
            self.answers[ident] = _plain(said[len(_ANSWERED_BY) :])
        elif said.startswith(_ASKED.lstrip()):
            self.others[_ANSWER] += 1
        elif said.startswith(_COMMAND):
            self._add_command(said.removeprefix(_COMMAND), outcome, times)
        else:
            tool, _, rest = said.partition(" ")
            access = classify_tool(tool.rstrip(":"))
            paths = _split_paths(rest) if access != "other" else []
            counts = self.edited if access == "write" else self.read
            if outcome.startswith(REFUSED) or (access == "write" and begins_with_failure(_SIZE.sub("", outcome))):
                self.others[f"{tool} (not done)"] += times
            elif paths:
                counts.update({file_name_of(path): times for path in paths})
            else:
                self.others[_plain(tool.rstrip(":"))] += times

    def _add_command(self, command: str, outcome: str, times: int) -> None:
        effect = effect_of(command.partition("<<")[0])  # a here-document in a line has no end
        if outcome.startswith(REFUSED):
            self.others["command (not done)"] += times
        elif effect.only_reads:
            names = sorted(find_file_names(command))
            self.read.update(dict.fromkeys(names, times))
            if not names:
                is_plain = _PROGRAM_NAME.fullmatch(effect.reader) and effect.reader not in _VERBS
                self.others[effect.reader if is_plain else "command"] += times
        else:
            main = _plain(fold_line(effect.main.replace("... ", ""), _RAN_CHARS))
            if not _PROGRAM.match(main):  # a script from a here-document, or a command whose middle was left out
                self.others["command"] += times
                return
            ended = _SIZE.sub("", outcome).removeprefix("exit code 0, ")
            self.ran.pop(main, None)
            self.ran[main] = _plain(fold_line(ended, _ENDED_CHARS)) if _SAYS_HOW.search(ended) else ""

    def _add_range(self, text: str) -> None:
        for part in text.split("; "):
            verb, _, rest = part.partition(" ")
            answer = _ANSWERED_IN.fullmatch(part)
            if answer:
                self.answers[answer[1]] = answer[2]
            elif verb in _VERBS[:2]:
                counts = self.edited if verb == "edited" else self.read
                for name, count in _COUNTED_NAME.findall(rest):
                    if _MORE.fullmatch(name):
                        self.unnamed[verb] += int(name)
                    else:
                        counts[name] += int(count or 1)
            elif verb == "ran":
                for command in rest.split(" | "):
                    ended = _ENDED.fullmatch(command)
                    if _MORE.fullmatch(command):
                        self.unnamed[verb] += int(command)
                    else:
                        self.ran[ended[1] if ended else command] = ended[2] if ended else ""
            else:
                self.others.update({what: int(count) for what, count in _COUNTED.findall(part)})

    def render(self, detail: int) -> str:
        """The text after `earlier work: `. `detail` 1 or 2: how many of each kind it names."""
        files, commands, answers, chars = (2, 1, 1, 60) if detail < 2 else (5, 3, 2, 110)
        ran = [f"{what} ({ended})" if ended else what for what, ended in list(self.ran.items())[-commands:]]
        more = len(self.ran) - len(ran) + self.unnamed["ran"]
        others = [f"{what} ×{count}" for what, count in self.others.most_common(commands) if count and what]
        texts = [
            self._list_names("edited", self.edited, files),
            self._list_names("read", self.read, files),
            f"ran {' | '.join(ran)}{f' | +{more}' if more else ''}" if ran else "",
            ", ".join(others),
            *(f"{ident} answered: {fold_line(said, chars)}" for ident, said in list(self.answers.items())[-answers:]),
        ]
        return "; ".join(filter(None, texts)) + tell_older_passages(list(self.older))

    def _list_names(self, verb: str, counts: Counter[str], most: int) -> str:
        names_with_counts = [f"{name} ×{count}" if count > 1 else name for name, count in counts.most_common(most)]
        more = len(counts) - len(names_with_counts) + self.unnamed[verb]
        return f"{verb} {', '.join(names_with_counts)}{f', +{more}' if more else ''}" if names_with_counts else ""


def _plain(text: str) -> str:
    """A text that cannot be taken for the end of a part of a range."""
    return text.replace("; ", ", ").replace(" | ", " , ").replace(OUTCOME, " → ").rstrip(";")


def tells_answer(line: str) -> bool:
    """Whether a line of a note says that a request was answered."""
    return ANSWERED in line or f"{_ANSWER} ×" in line or line.endswith(_WITH_ANSWER) or is_quoted(line)


# --- answers and documents that are quoted in a note ------------------------------------------------------------------

_QUOTE: Final = "\n  | "
_QUOTED: Final = " answered:"
_WROTE: Final = " wrote in "
_QUOTE_NOTICE: Final = LazyPattern(r"\n?\[([\d,]+) of ([\d,]+) characters; recall m\d+ has all of it\]$")
_LEAST_QUOTE: Final = 240
"""Characters: a shorter quote says no more than the first words."""


def is_quoted(line: str) -> bool:
    """Whether a line of a note quotes an answer."""
    return _QUOTE in line


def quote_answer(ident: str, text: str, chars: int) -> str:
    """A line of a note with at most about `chars` characters of an answer, shortened at paragraphs.

    Each line of the answer begins with a bar, so that none reads as a line of the note.
    """
    return _quote(f"- {ident}{_QUOTED}", ident, text, chars)


def quote_document(ident: str, name: str, text: str, chars: int) -> str:
    """The same of a document that the agent wrote to a file."""
    return _quote(f"- {ident}{_WROTE}{name}:", ident, text, chars)


def _quote(head: str, ident: str, text: str, chars: int) -> str:
    notice = _QUOTE_NOTICE.search(text)
    size = int(notice[2].replace(",", "")) if notice else len(text)
    body = _QUOTE_NOTICE.sub("", text).strip("\n")
    if chars < _LEAST_QUOTE:
        return _tell_in_brief(head, ident, body)
    quotation = shorten_prose(body, chars)
    if notice or len(quotation) < len(body):
        length = len(quotation.replace(GAP_MARK, ""))
        quotation = f"{quotation}\n[{length:,} of {size:,} characters; recall {ident} has all of it]"
    return head + "".join(f"{_QUOTE}{line}" for line in quotation.split("\n"))


def _tell_in_brief(head: str, ident: str, body: str) -> str:
    """A line with the first words; of an answer that ends with a question, with the question."""
    name = head.partition(_WROTE)[2]
    if name:
        return f"- {ident} wrote: in {name} {fold_line(body, _SAID_CHARS)}"
    question = _find_question(body)
    if "?" in question:
        return f"- {ident}{_ASKED}{question}"
    return f"- {ident}{ANSWERED}{fold_line(body, _SAID_CHARS)}"


def requote(line: str, chars: int) -> str:
    """A line that quotes an answer or a document, with at most about `chars` characters of it."""
    head, *quoted = line.split(_QUOTE)
    return _quote(head, _span_of(head), "\n".join(quoted), chars)


def _split_lines(text: str) -> list[str]:
    """The lines of a part of a note. A quote is one line, shortened to its first words."""
    return [requote(line, 0) if is_quoted(line) else line for line in _join_quotes(text.split("\n"))]


def _join_quotes(lines: Sequence[str]) -> list[str]:
    quotes: list[str] = []
    for line in lines:
        if quotes and f"\n{line}".startswith(_QUOTE.rstrip(" ")):
            quotes[-1] += f"\n{line}" if line.startswith(_QUOTE[1:]) else f"{_QUOTE}"
        else:
            quotes.append(line)
    return quotes


def is_group_note(message: Message) -> bool:
    return message.kind == NOTE and text_of(message).startswith((_HEADING, _SHORT_HEADING))


def lines_of_note(message: Message) -> list[str]:
    text = text_of(message)
    if text.startswith(_SHORT_HEADING):
        return [f"- {text[len(_SHORT_HEADING) : -len(_END)]}"]
    return _join_quotes(text.split("\n")[1:-1])


def tell_calls(line: str) -> str:
    """What a line of a note says of calls: an answer or a question that names a file does not have it."""
    return "" if tells_question(line) else line.partition("\n")[0].partition(_QUOTED)[0]


def groups_of_note(message: Message) -> list[str]:
    """The lines of a note, those of one group in one text, and remarks singly."""
    by_group = groupby(lines_of_note(message), lambda line: (_span_of(line), is_remark(line)))
    return ["\n".join(lines) for _, lines in by_group]


_QUESTION_LINE: Final = LazyPattern(rf"- m\d+{_ASKED}")
_DIALOG_WORDS: Final = LazyPattern(rf"^(- m\d+{_ASKED}|- m\d.*?{OUTCOME}(?:{REFUSED}, |{_USER_ANSWERED}))(.+)$")
_PATH: Final = LazyPattern(r"\S*[^\s/]\.\w+")
_REMARK: Final = LazyPattern(r"- m\d+ (?:said|wrote): ")
_EDIT_REMARK: Final = LazyPattern(r"- m\d+ wrote: in ")
_FOLDER: Final = LazyPattern(r"(?<![^\s;&|('\"])cd \S{1,300} {0,8}(?:&&|;)[\s\\]{0,8}")
"""The change to a folder before a command."""
_SCANNED_CHARS: Final = 4_000  # of a command that may be a whole script
_NOTED: Final = LazyPattern(r"- (m\d+)(?:\.\.m\d+)? (.+)")
_OLDER: Final = LazyPattern(r"; the passage of ([me][\d.]+(?:, [me][\d.]+)*) in the state note is older")
_SIZE: Final = LazyPattern(r"^[\d,]+ lines, ")
_RANGE_LINE: Final = LazyPattern(
    rf"- m\d+(?:\.\.m\d+)? {EARLIER}({_WITH_ANSWER})?(?:(?:{_SUCH_AS}|: )(.+))?"
)  # the colon: in older notes
_COUNTED: Final = LazyPattern(r"(?:^|, )([^,]+) ×(\d+)")
_COUNTED_NAME: Final = LazyPattern(r"([^\s,][^,]*?)(?: ×(\d+))?(?:, |$)")
_MORE: Final = LazyPattern(r"\+\d{1,5}")
_ANSWERED_IN: Final = LazyPattern(r"([me][\d.]+) answered: (.+)")
_ANSWERED_BY: Final = ANSWERED.lstrip()
_ENDED: Final = LazyPattern(r"(.+?) \((.+)\)")
_SAYS_HOW: Final = LazyPattern(
    r"exit code [1-9]|\b\d+ (?:passed|failed|passing|failing|failures?|errors?|issues?)"
    r"|^(?:ok|done|FAIL|PASS|error)\b",
    re.I,
)
"""An outcome that says whether a command succeeded. Others are a line of its output."""
_VERBS: Final = ("edited", "read", "ran")
_PROGRAM_NAME: Final = LazyPattern(r"[\w.-]+(?: [a-z-]+)?")
_PROGRAM: Final = LazyPattern(r"[\w./-]*\w(?: (?!-$)|$)")
_RAN_CHARS: Final = 60  # of a command in a range
_ENDED_CHARS: Final = 60  # of its outcome
_TIMES: Final = LazyPattern(r" \((\d{1,4}) times\)$")


def described_ids(notes: Iterable[Message]) -> frozenset[str]:
    """The calling messages that these notes describe."""
    lines = [line for note in notes for line in _facts_of_note(note)]
    return frozenset(match[1] for match in map(_NOTED.fullmatch, lines) if match)


def _facts_of_note(note: Message) -> list[str]:
    return [line for line in lines_of_note(note) if not (is_remark(line) or _RANGE_LINE.fullmatch(line))]


def statements_of_note(note: Message) -> Iterator[tuple[str, str, str]]:
    """What a note says of changed files and commands, as kind, id and text of a ledger line. Readings are left out."""
    for line in _facts_of_note(note):
        match = _NOTED.fullmatch(line)
        if not match or match[2].startswith((ANSWERED.lstrip(), _ASKED.lstrip())):
            continue
        said, arrow, outcome = match[2].rpartition(OUTCOME)
        if not arrow:
            said, outcome = match[2], ""
        if outcome.startswith(REFUSED):  # the call was not made
            continue
        if said.startswith(_COMMAND):
            command = said.removeprefix(_COMMAND)
            if not only_reads(command):
                yield "ran", match[1], f"{command}{OUTCOME}{outcome or NO_OUTPUT}"
            continue
        tool, _, paths = said.partition(" ")
        if classify_tool(tool) == "write" and not begins_with_failure(_SIZE.sub("", outcome)):
            yield from (("changed", match[1], path) for path in _split_paths(paths))


def _split_paths(text: str) -> list[str]:
    """The paths in the description of a call. Notes of older sessions have the outcome after a colon."""
    return [path for path in text.partition(": ")[0].split(", ") if _PATH.fullmatch(path)]
