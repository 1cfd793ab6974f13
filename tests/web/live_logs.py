"""Logs as the gateway writes them, of any length, written straight into a store: a run of that length takes minutes."""

from collections.abc import Iterator

from tidegate.core.edits import Drop, Edit, Replace
from tidegate.core.events import (
    Event,
    EventPayload,
    HostMessageAdded,
    HostNote,
    NoteAdded,
    UsageReported,
    ViewEdited,
)
from tidegate.core.messages import TOOL_RESULT, Call, Message, Result, Text
from tidegate.datafolder.data_folder import DataFolder

RESULT_TOKENS, START = 400, 1_794_700_000.0
MODEL = '{"model":"claude-opus-4-6","wire":"anthropic","window":200000}'


def make_long_log(events: int) -> Iterator[Event]:
    """A tool loop. Every 300 events a sweep shortens the results since the last sweep and drops what is older."""
    seqs = range(1, events + 1)
    shown: dict[str, int] = {}  # the tokens of each message in the view
    swept: list[str] = []
    for seq in seqs:
        name = f"m{seq}"
        payload: EventPayload
        if seq <= 2:
            payload = NoteAdded("model", MODEL) if seq == 1 else HostNote("system", "You fix builds.", 5)
        elif seq == 3:
            payload, shown[name] = HostMessageAdded(Message("user", (Text("Fix the build."),), name), 6, name), 6
        elif seq % 300 == 0:
            payload, swept = _make_sweep(shown, swept)
        elif seq % 3 == 1:
            parts = (Text(f"Step {seq}."), Call(f"c{seq + 2}", "read_file", f'{{"path":"src/{seq}.py"}}'))
            payload, shown[name] = HostMessageAdded(Message("assistant", parts, name), 30, name), 30
        elif seq % 3 == 2:
            size = sum(shown.values()) - 30 + 21
            payload = UsageReported("claude-opus-4-6", seq - 2, size, size, 30, max(0, size - 500), 400)
        else:
            result = Message("tool", (Result(f"c{seq}", (Text(f"line of the file {seq}\n" * 60),)),), name, TOOL_RESULT)
            payload = HostMessageAdded(result, RESULT_TOKENS, name)
            shown[name] = RESULT_TOKENS
        yield Event(seq, START + 4 * seq, payload)


def _make_sweep(shown: dict[str, int], swept: list[str]) -> tuple[ViewEdited, list[str]]:
    before = sum(shown.values())
    for each in swept:
        del shown[each]
    kept = [each for each in shown if each != "m3"]
    shortened = [each for each in kept if shown[each] == RESULT_TOKENS]
    edits: list[Edit] = [Drop(tuple(swept))] if swept else []
    edits += [Replace(each, (Result(f"c{each[1:]}", (Text("[a result, shortened]"),)),), 10) for each in shortened]
    shown.update(dict.fromkeys(shortened, 10))
    why = f"The history ({before:,} tokens) is too long."
    return ViewEdited("sweep", "before_call", "rule", why, before, sum(shown.values()), tuple(edits)), kept


def write_long_session(data: DataFolder, name: str, events: int) -> None:
    log = data.open_log(name)
    batch: list[Event] = []
    for event in make_long_log(events):
        batch.append(event)
        if len(batch) == 1_000:
            log.append(*batch)
            batch = []
    if batch:
        log.append(*batch)
