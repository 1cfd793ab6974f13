"""Judges, in a fresh process, what a cut left behind. It raises AssertionError with what is wrong."""

import msgspec

from tests.crash.acts import OPEN, Scene
from tests.crash.cuts import REFUSALS, Counts, Cut, Told
from tests.crash.together import judge_together
from tests.crash.worlds import NAME, SYSTEM, State, World, hash_of
from tidegate.core.events import MessageAdded, ViewEdited
from tidegate.core.messages import text_of
from tidegate.datafolder.forget.tombstones import TOMBSTONE
from tidegate.session.session import Session
from tidegate.wire.request import RequestRenderer


class Reference(msgspec.Struct):
    """A run that nobody cut: what was kept before and after each operation, and what the living process would have
    sent at each head of the log."""

    states: list[State]
    live: dict[int, bytes]
    requests: dict[int, list[bytes]]
    counts: Counts
    steps: list[str]


def would_send(session: Session) -> bytes:
    """The request as it is, also in the middle of something, where it need not be valid yet."""
    rendering = RequestRenderer(session.dialect, model=session.model)
    rendering.update(session.view)
    return hash_of(rendering.to_bytes())


def judge(scene: Scene, cut: Cut, reference: Reference, told: list[Told], world: World) -> None:
    if scene.free is not None:
        judge_together(world, told)
        return
    done = [line.op for line in told if line.what == "done"]
    if cut.how in REFUSALS and any(line.what == "refused" for line in told):
        _judge_told(scene, told, world)
        if scene.talks:
            _judge_said(scene, world, len(scene.ops))
    else:
        _judge_cut(scene, reference, told, len(done), world)
    if cut.kind == "power":
        _at_rest(world)
    scene.look(world)
    if scene.talks:
        _judge_opening(world, traced=cut.kind != "power")


def _at_rest(world: World) -> None:
    """SQLite does not sync the cutting of its log, so the power may bring an old one back: until the next closing."""
    if (world.folder / "search.db").exists():
        world.data.open_search().refresh()
    world.close()


def _judge_cut(scene: Scene, reference: Reference, told: list[Told], done: int, world: World) -> None:
    """The log is that of before or after what was cut, and goes on as if nothing had happened."""
    for line in told:
        if line.what == "done":
            _same(line.head, len(reference.states[line.op + 1].get(NAME, [])), f"head after operation {line.op}")
        if line.request:
            _same(line.request, reference.live[line.head].hex(), f"what was sent at {line.head} is not what is; hash")
    before = reference.states[done]
    after = reference.states[min(done + 1, len(scene.ops))]
    found = world.state()
    whole = found == after and (after != before or done == len(scene.ops))
    atomic = done == len(scene.ops) or scene.ops[done].atomic
    if found not in (before, after) and (atomic or not _on_the_way(before, found, after)):
        raise AssertionError(f"{_short(found)} was found, between {_short(before)} and {_short(after)}")
    if scene.talks and scene.exact:
        _judge_resumed(scene, reference, done, len(found.get(NAME, [])), world)
    whole = whole and not scene.ops[min(done, len(scene.ops) - 1)].again
    for number in range(done + whole, len(scene.ops)):
        scene.ops[number].run(world)
    if found in (before, after) and scene.exact:
        _same(world.state() == reference.states[-1], True, "gone on, it ends as if it had not been cut")
        _same(
            world.requests,
            [hash_ for n in range(done + whole, len(scene.ops)) for hash_ in reference.requests[n]],
            "hashes of the later requests",
        )
    if scene.talks:
        _judge_said(scene, world, len(scene.ops))


def _judge_resumed(scene: Scene, reference: Reference, done: int, head: int, world: World) -> None:
    session = world.session
    if done > scene.ops.index(OPEN):
        _same(session.log.head, head, "opening wrote into the log; head")
        _same(would_send(session), reference.live[head], f"the request after record {head} is another; hash")


def _on_the_way(before: State, found: State, after: State) -> bool:
    """Records were appended one by one, and the last of them are not there yet."""
    return found.keys() <= after.keys() and all(
        records in (before.get(name), after[name][: max(len(records), len(before.get(name, [])))])
        for name, records in found.items()
    )


def _judge_told(scene: Scene, told: list[Told], world: World) -> None:
    """After a refusal the same process went on to its end: what it saw last is what is there."""
    last = told[-1]
    _same((last.what, last.op), ("done", len(scene.ops) - 1), "the last word after a refusal")
    _same(len(world.state().get(NAME, [])), last.head, "head")
    if scene.talks and scene.exact:
        _same(world.session.log.head, last.head, "opening wrote into the log; head")
        _same(would_send(world.session).hex(), last.request, "the request of the process that went on; hash")
    elif not scene.talks:
        for line in told:
            if line.text:
                raise AssertionError(line.text)


def _judge_said(scene: Scene, world: World, ops: int) -> None:
    """Each message once, in order, and the session takes and answers more."""
    session = world.session
    events = list(world.data.open_log(NAME).read())
    _same([event.seq for event in events], list(range(1, len(events) + 1)), "seqs")
    words = [text_of(event.payload.message).split()[0] for event in events if isinstance(event.payload, MessageAdded)]
    wanted = [op.says for op in scene.ops[:ops] if op.says]
    _same(words[-len(wanted) :], wanted, "messages")
    words = [word for word in words if word != TOMBSTONE]
    _same(len(words), len(set(words)), "messages, each once")
    _same(session.view.system, SYSTEM, "system")
    new = session.add({"role": "user", "content": "more: how does it stand?"})
    request = session.prepare()
    _same(b"how does it stand?" in request.to_bytes(), True, "the newest request is sent")
    _same(request.tokens <= world.settings.window, True, "it fits")
    _same(text_of(session.recall(new[0])), "more: how does it stand?", "recall")
    for event in events:
        if isinstance(event.payload, MessageAdded):
            _same(session.recall(event.payload.message.id), event.payload.message, "recall")


def _judge_opening(world: World, *, traced: bool) -> None:
    """Opened once more, it is the same; a policy that restores less has done so with one edit and does no more.

    The trace is not synced, as it can be made again: a power cut may leave holes in it, a kill may not.
    """
    head = world.session.log.head
    world.close()
    again = World(world.folder, world.settings)
    events = list(again.data.open_log(NAME).read())
    _same(len(events), head, "head")
    edits = [event for event in again.session.log.read(head + 1) if isinstance(event.payload, ViewEdited)]
    _same(len(edits) <= 1, True, "a restore is at most one edit")
    sent = would_send(again.session)
    third = World(world.folder, world.settings)
    _same(third.session.log.head, again.session.log.head, "a second opening wrote into the log; head")
    _same(would_send(third.session), sent, "the request of a second opening; hash")
    head = third.session.log.head
    third.close()
    if traced:
        _judge_trace(third, head)


def _judge_trace(world: World, head: int) -> None:
    trace = world.data.trace_path(NAME)
    seqs = {int(msgspec.json.decode(line)["seq"]) for line in trace.read_bytes().splitlines()}
    _same(seqs, set(range(1, head + 1)), "seqs in the trace")


def _short(state: State) -> str:
    return str({name: f"{len(records)} records, the last {records[-1].hex()[:8]}" for name, records in state.items()})


def _same(found: object, wanted: object, what: str) -> None:
    if found != wanted:
        raise AssertionError(f"{what}: {str(found)[:300]} instead of {str(wanted)[:300]}")
