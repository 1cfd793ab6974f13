"""What all adapters share: messages of a host are sent as the view shows them, and never changed."""

import asyncio
import subprocess
import sys
import weakref
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.models.error_texts import ErrorText, sample_error_texts
from tidegate.core.events import BranchStarted, MessageAdded
from tidegate.core.messages import Call, Image, Message, Part, Result, Text, Thinking
from tidegate.datafolder.data_folder import DataFolder
from tidegate.integrations.content_blocks import read_block
from tidegate.integrations.host_messages import Copies, HostReader, MessagePiece, PartEdit, write_view
from tidegate.integrations.model_calls import CallPreparer, PreparedCall, make_usage
from tidegate.integrations.session_names import SessionName
from tidegate.integrations.threads import ThreadSessions, describe_missing_framework
from tidegate.session.following import FollowedRequest, Shown
from tidegate.store.memory import MemoryStore
from tidegate.wire.splicing.message_form import join_result_text

Turn = dict[str, Any]
THREAD = SessionName("t")


class TurnFormat:
    """Messages of an imaginary framework: a role and a list of parts; results of one step are in one message."""

    results_are_user = False

    def __init__(self) -> None:
        self.reads = 0

    def read(self, host: Turn) -> list[MessagePiece]:
        self.reads += 1
        parts = host["parts"]
        if any(isinstance(part, Result) for part in parts):
            return [MessagePiece(Message("tool", (part,)), (place,)) for place, part in enumerate(parts)]
        return [MessagePiece(Message(host["role"], tuple(parts)), tuple(range(len(parts))))]

    def rewrite(self, host: Turn, edits: Sequence[PartEdit]) -> Turn:
        parts = [host["parts"][edit.place] if edit.part is None else edit.part for edit in edits]
        return {**host, "parts": parts, "copied": True}

    def insert(self, message: Message) -> Turn:
        return {"role": message.role, "parts": list(message.parts), "inserted": True}


def turn(role: str, *parts: Part) -> Turn:
    return {"role": role, "parts": list(parts)}


def request_of(*shown: Shown[Any]) -> FollowedRequest[Any]:
    return FollowedRequest([], 0, list(shown), 0, "", (0, 0), False, 0, 0, "")


def show(hosts: Sequence[Turn], *places: Any) -> list[Turn]:
    """The list that is sent. A place is the number of a piece, such a number with a new message, or a new message."""
    items = HostReader(TurnFormat()).read(hosts)
    shown: list[Shown[Any]] = []
    for place in places:
        if isinstance(place, int):
            shown.append(Shown("kept", items[place], items[place].message, True))
        elif isinstance(place, Message):
            shown.append(Shown("inserted", None, place, True))
        else:
            shown.append(Shown("replaced", items[place[0]], place[1], True))
    return write_view(TurnFormat(), hosts, request_of(*shown))


HELLO = turn("user", Text("hello"))
CALLS = turn("assistant", Text("I look."), Call("a", "read"), Call("b", "read"))
RESULTS = turn("user", Result("a", (Text("A" * 50),)), Result("b", (Text("B" * 50),)))
HOSTS = [HELLO, CALLS, RESULTS]


def test_kept_messages_are_the_hosts_own_objects() -> None:
    sent = show(HOSTS, 0, 1, 2, 3)
    assert all(one is other for one, other in zip(sent, HOSTS, strict=True))


def test_one_edited_result_makes_a_copy_and_leaves_the_rest() -> None:
    stub = Result("a", (Text("[cleared]"),))
    sent = show(HOSTS, 0, 1, (2, Message("tool", (stub,))), 3)
    assert sent[0] is HELLO
    assert sent[1] is CALLS
    assert sent[2]["parts"] == [stub, RESULTS["parts"][1]]
    assert "copied" not in RESULTS
    assert RESULTS["parts"][0] == Result("a", (Text("A" * 50),))


def test_a_result_that_left_is_left_out_of_its_message() -> None:
    sent = show(HOSTS, 0, 1, 3)
    assert sent[2]["parts"] == [RESULTS["parts"][1]]


def test_inserted_results_are_joined_where_results_are_part_of_user_messages() -> None:
    """A run was interrupted: its calls have no results, and the user went on."""

    class UserResults(TurnFormat):
        results_are_user = True

    hosts = [HELLO, CALLS, turn("user", Text("Go on."))]
    missing = [Message("tool", (Result(ident, (Text("no result"),)),)) for ident in ("a", "b")]
    items = HostReader(UserResults()).read(hosts)
    kept = [Shown("kept", item, item.message, True) for item in items]
    inserted: list[Shown[Any]] = [Shown("inserted", None, message, True) for message in missing]
    sent = write_view(UserResults(), hosts, request_of(*kept[:2], *inserted, kept[2]))
    assert [each["role"] for each in sent] == ["user", "assistant", "user"]
    assert sent[2]["parts"] == [*(message.parts[0] for message in missing), Text("Go on.")]


def test_an_inserted_note_is_joined_with_the_user_message_beside_it() -> None:
    """Some servers want the sides to alternate."""
    note = Message("user", (Text("a note"),), kind="note")
    sent = show([*HOSTS, HELLO], 0, note, 1, 2, 3)
    assert [each["role"] for each in sent] == ["user", "assistant", "user"]
    assert [part.text for part in sent[0]["parts"]] == ["hello", "a note"]
    assert HELLO["parts"] == [Text("hello")]


def test_a_note_behind_results_is_joined_where_results_are_part_of_user_messages() -> None:
    class UserResults(TurnFormat):
        results_are_user = True

    note = Message("user", (Text("a note"),), kind="note")
    items = HostReader(UserResults()).read(HOSTS)
    shown = [Shown("kept", item, item.message, True) for item in items]
    sent = write_view(UserResults(), HOSTS, request_of(*shown, Shown("inserted", None, note, True)))
    assert sent[2]["parts"] == [*RESULTS["parts"], Text("a note")]
    apart = write_view(TurnFormat(), HOSTS, request_of(*shown, Shown("inserted", None, note, True)))
    assert apart[2] is RESULTS
    assert len(apart) == 4


def test_two_notes_become_one() -> None:
    notes = [Message("user", (Text(text),), kind="note") for text in ("one", "two")]
    sent = show(HOSTS, *notes, 1, 2, 3)
    assert [part.text for part in sent[0]["parts"]] == ["one\n\ntwo"]


def test_user_messages_that_an_edit_brought_together_are_joined_and_those_of_the_host_are_not() -> None:
    answer, more = turn("assistant", Text("yes")), turn("user", Text("and this"))
    joined = show([HELLO, answer, more], 0, 2)
    assert [part.text for part in joined[0]["parts"]] == ["hello", "and this"]
    assert len(joined) == 1
    apart = show([HELLO, more, answer], 0, 1, (2, Message("assistant", (Text("y"),))))
    assert apart[0] is HELLO
    assert apart[1] is more


def test_a_view_that_begins_with_an_answer_gets_a_first_user_message() -> None:
    sent = show(HOSTS, 1, 2, 3)
    assert sent[0]["role"] == "user"
    assert sent[0]["inserted"]


def test_an_image_stays_the_hosts_own_when_the_text_beside_it_is_cut() -> None:
    image = Image(data="QUJD")
    host = turn("user", Text("x" * 100), image)
    sent = show([host], (0, Message("user", (Text("x..."), image))))
    assert sent[0]["parts"] == [Text("x..."), image]
    assert sent[0]["parts"][1] is image


def test_signed_thinking_is_left_out_behind_an_edit() -> None:
    signed = Thinking(block='{"signature":"x"}')
    host = turn("assistant", signed, Text("so"))
    items = HostReader(TurnFormat()).read([HELLO, host])
    shown = [Shown("kept", items[0], items[0].message, True), Shown("kept", items[1], items[1].message, False)]
    sent = write_view(TurnFormat(), [HELLO, host], request_of(*shown))
    assert sent[1]["parts"] == [Text("so")]
    assert host["parts"][0] is signed


def test_objects_are_read_once() -> None:
    form = TurnFormat()
    reader = HostReader(form)
    hosts = [turn("user", Text(str(number))) for number in range(50)]
    reader.read(hosts)
    form.reads = 0
    assert len(reader.read([*hosts, HELLO])) == 51
    assert form.reads < 12, "what is new, and the last few of those that are known"


def test_equal_copies_are_not_read_again() -> None:
    form = TurnFormat()
    reader = HostReader(form)
    hosts = [turn("user", Text(str(number))) for number in range(50)]
    reader.read(hosts)
    form.reads = 0
    copies = [dict(host) for host in hosts]
    copies[20] = turn("user", Text("rewritten"))
    items = reader.read(copies)
    assert form.reads < 40, "those from the rewritten one on"
    assert [item.message.parts[0] for item in items] == [host["parts"][0] for host in copies]


def test_copies_are_compared_by_identity_with_the_next_call() -> None:
    class CountedTurn(dict[str, Any]):
        compared = 0

        def __eq__(self, other: object) -> bool:
            CountedTurn.compared += 1
            return super().__eq__(other)

        __hash__ = None

    form = TurnFormat()
    reader = HostReader(form)
    reader.read([CountedTurn(turn("user", Text(str(number)))) for number in range(50)])
    loaded = [CountedTurn(turn("user", Text(str(number)))) for number in range(50)]
    reader.read(loaded)
    assert CountedTurn.compared == 50
    reader.read([*loaded, HELLO])
    assert CountedTurn.compared == 50


def test_copies_for_each_call_are_not_kept() -> None:
    class Copied(dict[str, Any]):
        """A message that a weak reference can point to."""

    reader = HostReader(TurnFormat())
    first = [Copied(turn("user", Text(str(number)))) for number in range(50)]
    reader.read(first)
    reader.read([Copied(host) for host in first])
    third = [Copied(host) for host in first]
    seen = weakref.ref(third[7])
    assert len(reader.read(third)) == 50
    del third
    assert seen() is None


class CopyingHost:
    """A host that copies its messages for each call, and counts how many are compared."""

    def __init__(self, folder: Path) -> None:
        self.messages: list[Turn] = [turn("user", Text("Read all pages."))]
        self.preparer = CallPreparer(TurnFormat(), folder, window=4_000, model="gpt-4o")
        self.compared = 0

    def add_steps(self, count: int) -> None:
        for number in range(len(self.messages), len(self.messages) + count):
            self.messages.append(turn("assistant", Call(f"c{number}", "read", f'{{"page":{number}}}')))
            self.messages.append(turn("tool", Result(f"c{number}", (Text(f"Page {number}: " + "all is well. " * 20),))))

    def get_value(self, message: Turn) -> object:
        self.compared += 1
        return message

    def call(self, changed: dict[int, Turn] | None = None) -> FollowedRequest[Any]:
        """Prepare a call. `changed` are messages that something between the host and the adapter replaces."""
        self.compared = 0
        copied = [(changed or {}).get(place, {**message}) for place, message in enumerate(self.messages)]
        call = self.preparer.prepare(THREAD, copied, copies=Copies(self.messages, self.get_value))
        return call.request

    def read_log(self) -> tuple[str, int]:
        """The messages in the log as a text, and how many branches it has."""
        payloads = [event.payload for event in self.preparer.threads.session("t").log.read()]
        texts = [repr(each.message) for each in payloads if isinstance(each, MessageAdded)]
        return "".join(texts), len([each for each in payloads if isinstance(each, BranchStarted)])


def check_same_as_written_alone(call: PreparedCall[Turn]) -> None:
    """What is sent continues the last view, and is the same as for a request that was written alone."""
    alone = write_view(TurnFormat(), call.hosts, call.request)
    assert call.messages == alone
    for sent, other in zip(call.messages, alone, strict=True):
        assert (sent is other) == any(sent is host for host in call.hosts), "kept ones are the host's own objects"


def test_views_that_continue_each_other_are_written_as_each_of_them_alone(tmp_path: Path) -> None:
    preparer = CallPreparer(TurnFormat(), tmp_path, window=4_000, model="gpt-4o")
    hosts = [turn("user", Text("Read all pages."))]
    edited = 0
    for number in range(120):
        if number % 9 == 4:
            hosts.append(turn("user", Text(f"Now the part {number}.")))
        ids = [f"c{number}-{each}" for each in range(number % 3 + 1)]
        hosts.append(turn("assistant", Thinking(block='{"signature":"x"}'), *(Call(ident, "read") for ident in ids)))
        hosts.append(turn("user", *(Result(ident, (Text(f"{ident} " + "all is well. " * 20),)) for ident in ids)))
        call = preparer.prepare(THREAD, hosts)
        check_same_as_written_alone(call)
        edited += not call.request.is_unchanged
        if number == 70:  # the user takes steps back
            del hosts[-9:]
    assert edited > 50
    preparer.threads.close()


def test_a_framework_that_changes_what_it_got_does_not_change_the_next_request(tmp_path: Path) -> None:
    host = CopyingHost(tmp_path)
    host.add_steps(100)
    first = host.preparer.prepare(THREAD, host.messages)
    before = [dict(sent, parts=list(sent["parts"])) for sent in first.messages]
    for sent in first.messages:
        if not any(sent is message for message in host.messages):
            sent["parts"].append(Text("added by a provider's client"))
            sent["marked"] = True
    host.add_steps(1)
    second = host.preparer.prepare(THREAD, host.messages)
    assert second.messages[: len(before) - 1] == before[:-1]
    assert "marked" not in str(second.messages)
    host.preparer.threads.close()


@pytest.mark.exhaustive
def test_of_copies_only_those_in_the_view_are_compared(tmp_path: Path) -> None:
    host = CopyingHost(tmp_path)
    counts = []
    for _ in range(40):
        host.add_steps(10)
        shown = host.call().shown
        counts.append((host.compared, len(shown)))
    assert len(host.messages) == 801
    assert all(compared <= before + 40 for (compared, _), (_, before) in zip(counts[1:], counts, strict=False))
    assert max(compared for compared, _ in counts) < 200
    assert host.read_log()[1] == 0
    host.preparer.threads.close()


def test_a_copy_in_the_view_that_differs_from_its_original_is_noticed(tmp_path: Path) -> None:
    host = CopyingHost(tmp_path)
    host.add_steps(100)
    place = next(each.item.host.number for each in host.call().shown if each.item and each.item.host.number > 100)
    host.add_steps(1)
    host.call({place: turn("user", Text("redacted by a plugin"))})
    text, branches = host.read_log()
    assert "redacted by a plugin" in text
    assert branches == 1
    host.preparer.threads.close()


@pytest.mark.parametrize("place", [3, 60])
def test_a_replaced_original_is_noticed_wherever_it_is(place: int, tmp_path: Path) -> None:
    host = CopyingHost(tmp_path)
    host.add_steps(100)
    host.call()
    host.messages[place] = turn("user", Text("rewritten by the user"))
    host.add_steps(1)
    host.call()
    text, branches = host.read_log()
    assert "rewritten by the user" in text
    assert branches == 1
    host.preparer.threads.close()


def test_a_message_that_is_not_from_the_originals_is_noticed(tmp_path: Path) -> None:
    host = CopyingHost(tmp_path)
    host.add_steps(100)
    host.call()
    given = [{**message} for message in host.messages]
    given.insert(5, turn("user", Text("added by a plugin")))
    host.preparer.prepare(THREAD, given, copies=Copies(host.messages, host.get_value))
    text, branches = host.read_log()
    assert "added by a plugin" in text
    assert branches == 1
    host.preparer.threads.close()


def test_objects_that_cannot_be_compared_are_read_again() -> None:
    class Array:
        def __eq__(self, other: object) -> bool:
            raise ValueError("The truth value of an array is ambiguous.")

        def __hash__(self) -> int:
            return 0

    form = TurnFormat()
    reader = HostReader(form)
    for _ in range(2):
        form.reads = 0
        hosts = [turn("user", Text(str(number))) | {"artifact": Array()} for number in range(50)]
        assert len(reader.read(hosts)) == 50
        assert form.reads >= 50


def test_a_request_does_not_copy_the_history_and_keeps_its_own_size(tmp_path: Path) -> None:
    preparer = CallPreparer(TurnFormat(), tmp_path, window=8_000)
    hosts = [turn("user", Text("Read all pages.")), turn("assistant", Text("Which?"))]
    first = preparer.prepare(THREAD, hosts, model="gpt-4o").request
    hosts.append(turn("user", Text("The first.")))
    second = preparer.prepare(THREAD, hosts, model="gpt-4o").request
    assert first.items is second.items
    assert (len(first.shown), len(second.shown)) == (2, 3)
    preparer.threads.close()


def test_a_recent_message_that_the_framework_changed_in_place_is_read_again() -> None:
    reader = HostReader(TurnFormat())
    hosts = [turn("user", Text(str(number))) for number in range(50)]
    reader.read(hosts)
    hosts[46]["parts"] = [Text("redacted")]
    items = reader.read(hosts)
    assert items[46].message.parts == (Text("redacted"),)
    assert [item.host.number for item in items] == list(range(50))


def test_a_list_that_the_framework_shortened_is_read_up_to_its_end() -> None:
    reader = HostReader(TurnFormat())
    hosts = [turn("user", Text(str(number))) for number in range(50)]
    reader.read(hosts)
    items = reader.read([*hosts[:10], CALLS, RESULTS])
    assert [item.host.number for item in items] == [*range(11), 11, 11]


def test_a_long_list_fits_and_the_host_keeps_all_of_it(tmp_path: Path) -> None:
    preparer = CallPreparer(TurnFormat(), tmp_path, window=8_000)
    hosts = [turn("user", Text("Read all pages."))]
    sent: list[Turn] = []
    for number in range(60):
        hosts.append(turn("assistant", Call(f"c{number}", "read", f'{{"page":{number}}}')))
        hosts.append(turn("user", Result(f"c{number}", (Text(f"page {number} " * 200),))))
        call = preparer.prepare(THREAD, hosts, model="gpt-4o")
        assert call.request.tokens <= 8_000
        assert call.messages[-1] is hosts[-1]
        sent = call.messages
    assert any(each.get("copied") or each.get("inserted") for each in sent)
    assert not any("copied" in each for each in hosts)
    assert "page 2 " in preparer.threads.recall("t", "m9")
    preparer.threads.close()


def test_a_thread_goes_on_when_it_is_opened_again(tmp_path: Path) -> None:
    hosts, head = [HELLO, CALLS, RESULTS], 0
    for _ in range(2):
        preparer = CallPreparer(TurnFormat(), tmp_path, window=8_000)
        preparer.prepare(THREAD, hosts, model="gpt-4o")
        head = preparer.threads.session("t").log.head
        preparer.threads.close()
    again = ThreadSessions(tmp_path, window=8_000)
    assert again.session("t").log.head == head, "nothing was added twice"
    again.close()


def test_recall_has_what_another_program_logged_meanwhile(tmp_path: Path) -> None:
    """This is how a loop with a managed client gives its model the tool."""
    preparer, reader = CallPreparer(TurnFormat(), tmp_path, window=8_000), ThreadSessions(tmp_path)
    hosts = [turn("user", Text("the teapot is red"))]
    preparer.prepare(THREAD, hosts, model="gpt-4o")
    assert "the teapot is red" in reader.recall("t", "teapot")
    hosts += [turn("assistant", Text("yes")), turn("user", Text("the zebra is blue"))]
    preparer.prepare(THREAD, hosts, model="gpt-4o")
    assert "the zebra is blue" in reader.recall("t", "zebra")
    assert reader.recall("unknown", "zebra")
    preparer.threads.close()
    reader.close()


@pytest.mark.parametrize(
    ("block", "kind"),
    [
        ("plain", Text),
        ({"type": "text", "text": "plain"}, Text),
        ({"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}, Image),
        ({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}, Image),
        ({"type": "image", "base64": "QUJD", "mime_type": "image/png"}, Image),
        ({"type": "thinking", "thinking": "hm", "signature": "x"}, Thinking),
        ({"type": "something new", "payload": [1, 2]}, Image),
        (17, Image),
    ],
)
def test_blocks_of_all_forms_are_read(block: object, kind: type) -> None:
    assert isinstance(read_block(block), kind)


def test_a_text_of_a_subclass_is_read_as_a_plain_text() -> None:
    class Marked(str):
        pass

    part = read_block(Marked("words"))
    assert isinstance(part, Text)
    assert type(part.text) is str


def test_usage_counts_cached_tokens_as_input() -> None:
    report = make_usage(100, 7, 60, 30)
    assert sum(value for key, value in report.items() if "input" in key and isinstance(value, int)) == 100
    assert report["cache_read_input_tokens"] == 60


def test_an_empty_result_has_a_text() -> None:
    assert join_result_text(Result("a", ())) == "(no output)"


def test_a_missing_framework_says_what_to_install() -> None:
    error = describe_missing_framework("openai-agents", ImportError("No module named 'agents'", name="agents"))
    assert "pip install 'tidegate[openai-agents]'" in str(error)
    assert "tidegate.integrations.openai_agents" in str(error)


FRAMEWORKS = {
    "agent_framework": "agent_framework",
    "google_adk": "google.adk",
    "inspect_ai": "inspect_ai",
    "langchain": "langchain",
    "openai_agents": "agents",
    "pydantic_ai": "pydantic_ai",
    "strands": "strands",
}


def test_an_adapter_without_its_framework_is_an_import_error() -> None:
    program = f"""
import importlib, sys
for adapter, package in {FRAMEWORKS!r}.items():
    sys.modules[package] = None
    try:
        importlib.import_module(f"tidegate.integrations.{{adapter}}")
    except ImportError as error:
        print(adapter, error, sep=": ")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    lines = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    assert set(lines) == set(FRAMEWORKS)
    for adapter, line in lines.items():
        assert f"pip install 'tidegate[{adapter.replace('_', '-')}]'" in line


# --- refusals ---------------------------------------------------------------------------------------------------------


class RefusedError(Exception):
    """As an SDK raises it: with the status and the provider's answer."""

    def __init__(self, row: ErrorText) -> None:
        super().__init__(row.text)
        self.status_code = row.status or 400
        self.response = SimpleNamespace(text=row.text)


@pytest.mark.parametrize("is_async", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
def test_error_texts_about_length_lead_to_a_smaller_call_and_others_to_one_more_at_most(
    is_async: bool, tmp_path: Path
) -> None:
    wrong = []
    texts = sample_error_texts()[is_async :: 4 if is_async else 1]
    with DataFolder(tmp_path, store=MemoryStore()) as data:
        for number, row in enumerate(texts):
            sizes, errors = list[int](), list[Exception]()
            answered = raised = None

            def ask(messages: list[Turn], row: ErrorText = row, sizes: Any = sizes, errors: Any = errors) -> str:
                sizes.append(len(str(messages)))
                if row.kind == "overflow" and sizes[-1] < sizes[0]:
                    return "Fine."
                errors.append(RefusedError(row))
                raise errors[-1]

            async def ask_async(messages: list[Turn], ask: Any = ask) -> str:
                return str(ask(messages))

            hosts = [
                turn(("user", "assistant")[n % 2], Text(f"{number} {n} " + "all is well. " * 60)) for n in range(21)
            ]
            call = CallPreparer(TurnFormat(), data, window=8_000).prepare(THREAD._replace(name=f"t{number}"), hosts)
            try:
                answered = asyncio.run(call.send_async(ask_async)) if is_async else call.send(ask)
            except RefusedError as error:
                raised = error
            is_right = bool(answered) if row.kind == "overflow" else len(sizes) <= 2 and raised is errors[0]
            if not is_right:
                wrong.append(f"{row.kind} {row.status} {sizes} {row.text[:200]}")
    assert not wrong, "\n".join(wrong)
