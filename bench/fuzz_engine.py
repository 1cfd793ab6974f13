"""Requests at random through the gateway's own code, from the parsed request to the bytes that go upstream.

    python bench/fuzz_engine.py                                            # 2,000 requests
    python bench/fuzz_engine.py --chunks 50 --results chunks.jsonl         # a million; goes on where it stopped
    python bench/fuzz_engine.py --seed 7 --conversation 3/120              # one conversation again

There is no HTTP, no disk and no event loop: a request takes about 3 ms of CPU instead of the 17 of `fuzz_gateway.py`.
Each conversation is short, in a small window, with a log in memory. Clients of the four dialects send requests and get
answers that are partly changed at random, go back, edit their past, think and recall; the upstream refuses some
requests, and the session is sometimes opened again from its log. Each chunk has 20,000 requests; its line in the file
of results says how many of what. These are counted, and the exit status is 1 if there are any:

- invalid: a request has a fault that the validator of its dialect finds, although the client's own has none
- misplaced: signed thinking is sent in a place where it was not made, although the client's own is in its place
- defects: an edited request was invalid; the gateway noticed it and sent the client's own
- exceptions: anything else was raised, or a whole answer did not arrive whole
- lost: a text that a client sent or received completely is not in the log
"""

import argparse
import json
import sys
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
from fuzz_gateway import find_tool_names, list_faults, read_answer
from fuzz_requests import DIALECTS, MARK, ClientState, Json, draw_answer, encode_answer, mutate, write_json

from tests.fake.issued_thinking import IssuedThinking
from tidegate.core.errors import BadInput, BadRequest, GiveUp, TidegateError, TooSmall
from tidegate.core.policy.policy import Policy
from tidegate.gateway.bound_thinking import BoundThinking
from tidegate.gateway.client_stream import ClientStream
from tidegate.gateway.conversations import Conversation
from tidegate.gateway.hidden_recall import HiddenRecall, offer_recall, restore_hidden_exchanges
from tidegate.gateway.metrics import Metrics
from tidegate.presets import load, preset_names
from tidegate.session.answer_copy import AnswerCopy
from tidegate.session.following import FollowedRequest, FollowingSession
from tidegate.session.guarded_request import write_guarded
from tidegate.session.managed_request import ClientRequest, ClientRequestReader, write_request
from tidegate.session.session import Session
from tidegate.store.log import MemoryLog
from tidegate.wire.anthropic.thinking_option import ANTHROPIC_THINKING
from tidegate.wire.registry import get_dialect
from tidegate.wire.splicing.units import HostUnit

CHUNK: Final = 20_000
KINDS: Final = ("invalid", "misplaced", "defects", "exceptions", "lost")
MODELS: Final = {
    "anthropic": ("claude-opus-4-6", "claude-sonnet-4-5", "claude-opus-5-1"),
    "openai_chat": ("gpt-4o",),
    "openai_responses": ("gpt-4o", "gpt-5"),
    "gemini": ("gemini-2.5-pro",),
}
MAX_SAVED: Final = 20
"""Findings of a chunk whose requests are kept."""
_POLICIES: Final[list[Policy]] = [*[load("default")] * len(preset_names()), *map(load, preset_names())]


class Fault(Exception):
    """Something to count: its kind, what it is, and the requests."""

    def __init__(self, kind: str, text: str, **details: Any) -> None:
        super().__init__(kind, text)
        self.kind, self.text, self.details = kind, text, details


class FuzzedConversation:
    """One client, its session, and what the upstream knows of the thinking that it signed."""

    def __init__(self, seed: str, totals: Counter[str]) -> None:
        self.random = random = Random(seed)
        self.totals = totals
        self._marks = self._answers = 0
        dialect = random.choice(DIALECTS)
        self.client = ClientState(
            dialect,
            random,
            self._make_mark,
            "fuzzed",
            model=random.choice(MODELS[dialect]),
            text_sizes=random.choice(((1, 5, 15, 40), (1, 5, 5, 20, 90, 250))),
            thinks=random.random() < 0.4,
        )
        self.client.greet()
        self._window = random.choice((700, 900, 1200, 1600, 2500))
        self._policy = random.choice(_POLICIES)
        self._offers_recall = random.random() < 0.6
        self._log = MemoryLog()
        self._thinking = BoundThinking(Metrics(), lambda line: None)
        self._is_bound = self.client.model == "claude-opus-5-1"
        self._issued = IssuedThinking(binds_prefix=self._is_bound)
        self._own_issued = IssuedThinking(binds_prefix=True)
        self._expected: set[str] = set()
        self._open()

    def _make_mark(self) -> str:
        self._marks += 1
        return f"k{self._marks:08x}"

    def _open(self) -> None:
        """Open the session from its log, as a gateway does that was started again."""
        self._reader = ClientRequestReader()
        session = Session(
            self.client.model, policy=self._policy, window=self._window, wire=self.client.dialect, log=self._log
        )
        self._conversation = Conversation("fuzzed", self.client.dialect, FollowingSession(session))

    def talk(self, rounds: int) -> None:
        client, random = self.client, self.random
        for _ in range(rounds):
            if random.random() < 0.02:
                self._open()
                self.totals["reopened"] += 1
            answer = self._ask()
            if answer is not None:
                client.keep(answer)
            if random.random() < 0.1 and not client.calls:
                client.change()
            if answer is not None or not client.messages or not client.ends_with_user:
                client.say()

    def _ask(self) -> Json | None:
        """Send the client's request, some changed at random. The answer, if it is whole and the request unchanged."""
        random, client, self._body = self.random, self.client, self.client.make_body()
        self._is_stream, is_changed = random.random() < 0.5, random.random() < 0.3
        self._is_odd = random.random() < 0.05
        if self._is_stream and client.dialect != "gemini":
            self._body["stream"] = True
        self._own = write_json(mutate(self._body, random) if is_changed else self._body, random)
        self._is_valid = not list_faults(client.dialect, self._own, client.model)
        self._is_own_placed = not is_changed and not self._own_issued.find_faults(self._body)
        self.totals["requests"] += 1
        self.totals[f"requests of {client.dialect}"] += 1
        self.totals["valid requests"] += self._is_valid
        request = self._reader.read(client.dialect, self._own, client.model, client.name)
        if request is None or request.host.reason or not request.items:
            self.totals["unmanaged requests"] += 1
            return None
        answer_bytes = self._answer(request)
        answer = (
            read_answer(client.dialect, answer_bytes, self._is_stream) if answer_bytes and not self._is_odd else None
        )
        if answer_bytes and answer is None and not (self._is_odd or is_changed):
            raise Fault("exceptions", "the answer is not whole", sent=self._own, received=answer_bytes)
        if answer_bytes and self._is_valid and not self._is_odd:
            listed = msgspec.json.decode(self._own)[client.list_name]
            self._expected.update(MARK.findall(json.dumps(listed)))
            self._expected.update(MARK.findall(answer_bytes.decode("utf-8", "replace")) if answer else ())
        if answer is not None and not is_changed and client.dialect == "anthropic":
            self._own_issued.issue(self._body, answer["content"])
        return None if is_changed else answer

    def _answer(self, own: ClientRequest) -> bytes:
        """What the client gets; empty if its request was refused or the answer broke off. As `Gateway._manage`."""
        conversation = self._conversation
        following, session = conversation.following, conversation.following.session
        session.recovery.set_window(self._window)
        client = restore_hidden_exchanges(conversation, own)
        if self._offers_recall:
            client = offer_recall(client, session.view.tools)
        try:
            followed = following.prepare(client.items, fixed_part=client.fixed_part)
        except TooSmall:
            self.totals["unmanaged requests"] += 1
            self._check(own, self._thinking.clean(own, conversation, own.text))
            return b""
        recall = HiddenRecall(client.dialect) if client.offers_recall else None
        stream, answer_bytes = ClientStream(recall.merged) if recall else None, b""
        while True:
            request, is_accepted = self._write(own, client, followed)
            if self.random.random() < 0.04:
                shrunk = self._refuse(client, request)
                if shrunk is None:
                    return b""
                followed = shrunk
                continue
            if not is_accepted:
                return b""
            answer_bytes += self._pass_on(client, followed, request, recall, stream)
            if recall is None or not recall.merged.goes_on or not recall.has_calls:
                return answer_bytes + (stream.end() if stream else b"")
            try:
                continued = recall.continue_request(conversation, client, followed.last_id)
            except BadInput as failure:
                if self._is_valid and not self._is_odd:
                    raise Fault("exceptions", str(failure), sent=request, received=answer_bytes) from None
                return b""
            assert continued is not None, "a continued request can be read"
            self.totals["recalls"] += 1
            try:
                client, followed = continued, following.prepare(continued.items, fixed_part=continued.fixed_part)
            except TooSmall:  # a refusal said that the window is very small
                return b""

    def _write(
        self, own: ClientRequest, client: ClientRequest, followed: FollowedRequest[HostUnit]
    ) -> tuple[bytes, bool]:
        """What is sent, as `Gateway._write_body` writes it, and whether the upstream accepts it."""
        session = self._conversation.following.session
        try:
            text = write_request(client, followed)
        except BadRequest as defect:
            if self._is_valid:
                raise Fault("defects", str(defect), sent=self._own) from None
            text = self._guard(client) or own.text
            text = self._thinking.clean(own, self._conversation, text)
        self.totals["edited requests"] += text not in (client.text, own.text)
        is_accepted = self._check(own, text)
        if self._is_bound and session.view.first_edit_seq and self.random.random() < 0.5:
            text = ANTHROPIC_THINKING.allow_dropping(text)
            is_accepted = self._check(own, text)
        return text, is_accepted

    def _guard(self, client: ClientRequest) -> bytes | None:
        window = self._conversation.following.session.window
        try:
            return write_guarded(client, window) if window and len(client.text) > window else None
        except (TidegateError, AssertionError):
            return None

    def _check(self, own: ClientRequest, request: bytes) -> bool:
        """The rules of the provider, and the places of signed thinking. False: a client's invalid request stays so."""
        faults = list_faults(own.dialect, request, self.client.model)
        if not self._is_valid:
            return not faults
        if faults:
            raise Fault("invalid", faults[0], sent=self._own, arrived=request)
        if own.dialect == "anthropic" and self._is_own_placed:
            misplaced = self._issued.find_faults(msgspec.json.decode(request, type=dict[str, Any]))
            if misplaced:
                raise Fault("misplaced", misplaced[0].text, sent=self._own, arrived=request)
        return True

    def _refuse(self, client: ClientRequest, request: bytes) -> FollowedRequest[HostUnit] | None:
        """The upstream refuses the request for its length or its thinking. None: the client gets the refusal."""
        following = self._conversation.following
        kind = self.random.randrange(4)
        self.totals["refusals"] += 1
        if kind == 0:
            return None
        if kind == 1 and client.dialect == "anthropic" and request != client.text:
            return following.discard_thinking(client.items)
        try:
            following.session.recovery.learn_limits(int(self._window * self.random.uniform(0.5, 0.9)), None)
            return following.shrink(client.items)
        except (GiveUp, TooSmall):
            return None

    def _pass_on(
        self,
        client: ClientRequest,
        followed: FollowedRequest[HostUnit],
        request: bytes,
        recall: HiddenRecall | None,
        stream: ClientStream | None,
    ) -> bytes:
        """Answer a request, log the answer, and return what the client gets of it."""
        self._answers += 1
        body = msgspec.json.decode(request, type=dict[str, Any])
        answer = draw_answer(self.client, find_tool_names(body), self._answers, len(request))
        data = encode_answer(self.client, answer, is_stream=self._is_stream, is_odd=self._is_odd)
        copy = AnswerCopy(get_dialect(client.dialect), is_stream=self._is_stream, request=request)
        if stream is not None:
            stream.start(is_stream=self._is_stream)
        cut = self.random.randrange(len(data)) if data else 0
        answer_bytes = b""
        for piece in (data[:cut], data[cut:]):
            copy.feed(piece)
            answer_bytes += stream.feed(piece) if stream is not None else piece
        copy.end()
        answer_bytes += b"" if self._is_stream or stream is None else stream.end()
        following = self._conversation.following
        try:
            copied = copy.read() if copy.is_whole else None
        except TidegateError:
            copied = None
        if copied is None:
            partial = copy.read_partial()
            following.record_reply(followed, partial, {}, partial=partial is not None)
            return answer_bytes
        reply, notes = recall.take_answer(copied) if recall else (copied.message, [])
        following.record_reply(followed, reply, copied.usage, notes=notes)
        if client.dialect == "anthropic" and copied.client_messages:
            content = copied.client_messages[0].get("content")
            self._issued.issue(body, content if isinstance(content, list) else [])
        return answer_bytes

    def check_log(self) -> None:
        """Every text that a client sent or received is in the log."""
        logged = set(MARK.findall("".join(repr(event.payload) for event in self._log.read())))
        if missing := self._expected - logged:
            raise Fault("lost", f"{min(missing)} and {len(missing) - 1} others")


def run_conversation(name: str, totals: Counter[str]) -> Fault | None:
    """One conversation. It ends with the first fault."""
    talk = FuzzedConversation(name, totals)
    try:
        talk.talk(talk.random.choice((2, 4, 6, 10)))
        talk.check_log()
    except Fault as fault:
        return fault
    except Exception as failure:  # noqa: BLE001 - each is a finding
        return Fault("exceptions", repr(failure), sent=talk._own, trace=traceback.format_exc())
    return None


def run_chunk(seed: int, chunk: int, size: int) -> Json:
    """A chunk as one line of the results."""
    totals, kinds, findings = Counter[str](), Counter[str](), list[Json]()
    started, number = time.process_time(), 0
    while totals["requests"] < size:
        fault = run_conversation(f"{seed}/{chunk}/{number}", totals)
        if fault is not None:
            kinds[fault.kind] += 1
            if len(findings) < MAX_SAVED:
                findings.append({"conversation": number, "kind": fault.kind, "text": fault.text[:500], **fault.details})
        number += 1
    totals["conversations"] = number
    seconds = round(time.process_time() - started, 1)
    return {
        "seed": seed,
        "chunk": chunk,
        "cpu_seconds": seconds,
        "totals": totals,
        "kinds": kinds,
        "findings": findings,
    }


def read_results(path: Path | None, seed: int) -> dict[int, Json]:
    lines = path.read_text().splitlines() if path is not None and path.exists() else []
    return {line["chunk"]: line for line in map(json.loads, lines) if line["seed"] == seed}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000, help="requests, if --chunks is not given (2000)")
    parser.add_argument("--chunks", type=int, default=0, help="chunks of 20,000 requests")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=Path, help="a file with a line for each chunk; those in it are not run again")
    parser.add_argument("--conversation", metavar="CHUNK/NUMBER", help="only this conversation")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # results without a call, which are wanted here
    if options.conversation:
        fault = run_conversation(f"{options.seed}/{options.conversation}", Counter())
        print(f"{fault.kind}: {fault.text}\n{fault.details}" if fault else "no fault")
        return 1 if fault else 0
    results = read_results(options.results, options.seed)
    for chunk in range(options.chunks or 1):
        if chunk not in results:
            results[chunk] = run_chunk(options.seed, chunk, CHUNK if options.chunks else options.count)
            print(describe_chunk(results[chunk]), flush=True)
            if options.results:
                with options.results.open("a") as file:
                    file.write(
                        json.dumps(results[chunk], default=lambda value: value.decode("utf-8", "replace")) + "\n"
                    )
    totals, kinds = Counter[str](), Counter[str]()
    for line in results.values():
        totals.update(line["totals"])
        kinds.update(line["kinds"])
    print(", ".join(f"{count:,} {name}" for name, count in totals.items()))
    print(f"seed {options.seed}: " + ", ".join(f"{kinds[kind]} {kind}" for kind in KINDS))
    return 1 if kinds.total() else 0


def describe_chunk(line: Json) -> str:
    lines = [
        f"  {each['kind']} in {line['chunk']}/{each['conversation']}: {each['text'][:300]}" for each in line["findings"]
    ]
    requests = line["totals"]["requests"]
    first = f"chunk {line['chunk']}: {requests:,} requests, {line['cpu_seconds'] / requests * 1e3:.2f} ms of CPU each"
    return "\n".join([first, *lines])


if __name__ == "__main__":
    sys.exit(main())
