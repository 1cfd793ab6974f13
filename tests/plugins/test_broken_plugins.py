"""Broken plugins: the error names the package, and everything else goes on."""

import json
from pathlib import Path

import pytest

from tests.plugins.environments import EXAMPLE, Environment, lay_out_environment, write_package

pytestmark = pytest.mark.skipif(not EXAMPLE.exists(), reason="the examples are not in the source distribution")

SOURCE = '''
"""Everything that can go wrong in a plugin."""
import msgspec
from tidegate import Drop, Insert, Message, Outcome, Replace, Text
from tidegate.agent.tools.tool import FunctionTool
from tidegate.models.provider import Delta, Reply

FORMAT = "broken"

def raises(view, budget):
    view.items.clear()
    raise ZeroDivisionError("division by zero")

def garbage(view, budget):
    return {"edits": []}

def odd_edit(view, budget):
    return Outcome((Replace(5, "abc"),))

def surrogate(view, budget):
    return Outcome((Insert(Message("user", (Text("half \\ud800"),)), ""),), grows=True)

def cuts_group(view, budget):
    return Outcome((Drop((view.items[1].message.id,)),))

def drops_request(view, budget):
    return Outcome((Drop((view.newest_request,)),))

def one_parameter(view):
    return Outcome()

async def later(view, budget):
    return Outcome()

def reserved(view, budget, *, when: str = ""):
    return Outcome()

def unknown_hint(view, budget, *, size: "Nowhere" = 1):
    return Outcome()

class Nothing(msgspec.Struct):
    pass

async def raise_in_tool(arguments, context):
    raise LookupError("no such thing")

class GarbageTool(FunctionTool):
    async def __call__(self, arguments, context):
        return 42

RAISING_TOOL = FunctionTool("raising_tool", "Raise.", Nothing, raise_in_tool)
GARBAGE_TOOL = GarbageTool("garbage_tool", "Garbage.", Nothing, raise_in_tool)
MISNAMED_TOOL = FunctionTool("another", "Another.", Nothing, raise_in_tool)
NOT_A_TOOL = "a text"

def recognizes(source):
    raise RuntimeError("never asked before")

def read(source):
    yield 1

class Provider:
    wire, model = "openai_chat", "m"
    def __init__(self, sent): self.sent = sent
    async def stream(self, request):
        for each in self.sent:
            if isinstance(each, Exception):
                raise each
            yield each
    async def close(self): pass

def raising_provider(target): return Provider([Delta("text", "Hel"), ValueError("lost my way")])
def garbage_provider(target): return Provider(["text"])
def silent_provider(target): return Provider([])
def odd_reply(target): return Provider([Reply([{"role": 7}], {}, "end")])
def odd_dialect(target):
    made = Provider([])
    made.wire = "morse"
    return made
def no_provider(target): return None
def failing_provider(target): raise OSError("no network")

def raising_store(url, clock): raise OSError(f"cannot reach {url}")
def no_store(url, clock): return object()
'''
STAGES = "raises garbage odd_edit surrogate cuts_group drops_request one_parameter later reserved unknown_hint".split()
PROVIDERS = (
    "raising_provider garbage_provider silent_provider odd_reply odd_dialect no_provider failing_provider".split()
)
ENTRY_POINTS = {
    "tidegate.stages": {
        **{name: f"tidegate_broken:{name}" for name in STAGES},
        "no_module": "tidegate_nowhere:stage",
        "no_name": "tidegate_broken:nowhere",
        "leaves": "tidegate_leaves:stage",
        "sweep": "tidegate_broken:raises",
        "shorten_repeats": "tidegate_broken:raises",
    },
    "tidegate.tools": {
        "raising_tool": "tidegate_broken:RAISING_TOOL",
        "garbage_tool": "tidegate_broken:GARBAGE_TOOL",
        "misnamed_tool": "tidegate_broken:MISNAMED_TOOL",
        "not_a_tool": "tidegate_broken:NOT_A_TOOL",
    },
    "tidegate.importers": {"broken": "tidegate_broken"},
    "tidegate.providers": {name: f"tidegate_broken:{name}" for name in PROVIDERS},
    "tidegate.stores": {"raising": "tidegate_broken:raising_store", "nostore": "tidegate_broken:no_store"},
}
BROKEN = "the package tidegate-broken 0.1"
CHAT = [
    {"role": "user", "content": "Look."},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "read", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "a", "content": "the result"},
    {"role": "assistant", "content": "Done."},
    {"role": "user", "content": "Again."},
]


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    leaves = write_package(tmp_path, "tidegate-leaves", "import sys\nsys.exit(3)\n", {})
    broken = write_package(tmp_path, "tidegate-broken", SOURCE, ENTRY_POINTS)
    made = lay_out_environment(tmp_path, EXAMPLE, broken, leaves)
    damaged = Path(made.site) / "damaged-1.0.dist-info"
    damaged.mkdir()
    (damaged / "METADATA").write_text("Metadata-Version: 2.1\nName: damaged\nVersion: 1.0\n")
    (damaged / "entry_points.txt").write_text("[tidegate.stages]\nno equals sign\n")
    return made


def test_the_list_names_every_fault_and_every_package(environment: Environment) -> None:
    shown = environment.run("plugins", expect=1).out
    faults = [line.split("broken: ")[1] for line in shown.splitlines() if "broken: " in line]
    for name in ("one_parameter", "later", "reserved", "unknown_hint", "no_module", "no_name", "leaves"):
        assert any(fault.startswith(f'The stage "{name}" of {BROKEN} ') for fault in faults), name
    assert any("is never used: tidegate has a stage of this name" in fault for fault in faults)
    assert 'The tool "not_a_tool" of the package tidegate-broken 0.1 is a str' in shown
    assert 'calls itself "another"' in shown
    assert "is offered by several packages: tidegate-broken 0.1 and tidegate-example 1.0" in shown
    assert "The entry points of damaged cannot be read" in shown
    assert (
        "stage     raises  (tidegate-broken 0.1: tidegate_broken:raises)\n" in shown
    )  # loads; fails only when it runs
    assert "tool      count_words  (tidegate-example 1.0: tidegate_example.tool:COUNT_WORDS)\n" in shown
    assert "pip uninstall tidegate-broken." in shown


def test_a_stage_that_cannot_be_loaded_is_an_error_of_the_policy_file(environment: Environment) -> None:
    """The first through the command line, all through the library."""
    expected = {
        "no_module": "cannot be loaded: ModuleNotFoundError: No module named 'tidegate_nowhere'",
        "no_name": "cannot be loaded: AttributeError",
        "leaves": "cannot be loaded: SystemExit: 3",
        "one_parameter": "has the parameters (view): a stage is a function (view, budget, *, setting=default, ...)",
        "later": "is asynchronous",
        "reserved": 'has a setting called "when", which is a key of every rule',
        "unknown_hint": "has a signature that cannot be read (NameError",
    }
    policies = [
        environment.write(f"{name}.yaml", f"moments:\n  before_call:\n    - stage: {name}\n") for name in expected
    ]
    recording = environment.write("chat.jsonl", "".join(json.dumps(line) + "\n" for line in CHAT))
    failed = environment.run("replay", recording, "--policy", policies[0], "--window", "8000", expect=2)
    assert f'no_module.yaml:3: The stage "no_module" of {BROKEN} {expected["no_module"]}' in failed.err
    code = (
        "import sys; from tidegate import BadPolicy, load\n"
        "for path in sys.argv[1:]:\n"
        "    try: load(path)\n"
        "    except BadPolicy as bad: print(bad)\n"
    )
    shown = environment.run_code(code, *policies).out.splitlines()
    assert len(shown) == len(expected)
    for line, (name, said) in zip(shown, expected.items(), strict=True):
        assert f'{name}.yaml:3: The stage "{name}" of {BROKEN} {said}' in line


def test_a_name_that_two_packages_offer_is_an_error(environment: Environment) -> None:
    policy = environment.write("clash.yaml", "moments: {before_call: [{stage: shorten_repeats}]}\n")
    recording = environment.write("chat.jsonl", "".join(json.dumps(line) + "\n" for line in CHAT))
    failed = environment.run("replay", recording, "--policy", policy, "--window", "8000", expect=None)
    assert "several packages: tidegate-broken 0.1 and tidegate-example 1.0. Uninstall all but one." in " ".join(
        failed.err.replace("remedy: ", "").split()
    )


def test_a_plugin_does_not_replace_a_built_in_stage(environment: Environment) -> None:
    policy = environment.write("own.yaml", "moments: {before_call: [{stage: sweep}]}\n")
    code = "import sys, tidegate; print(tidegate.load(sys.argv[1]).moments['before_call'][0].run.__module__)"
    assert environment.run_code(code, policy).out.strip() == "tidegate.core.stages.sweep"


RUN_STAGE = """\
import json, sys
from tidegate import Session, load
session = Session("m", window=8000, policy=load(sys.argv[1]))
for message in json.loads(sys.argv[2]):
    session.add(message)
request = session.prepare()
print(json.dumps([request.messages, str(session.explain()), len(list(session.log.read()))]))
"""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("raises", f"The stage raises of {BROKEN} failed (ZeroDivisionError: division by zero)"),
        ("garbage", f"The stage garbage of {BROKEN} returned dict, not an Outcome"),
        ("odd_edit", f"The stage odd_edit of {BROKEN} returned an Outcome that cannot be stored"),
        ("surrogate", f"The stage surrogate of {BROKEN} returned an Outcome that cannot be stored"),
        ("cuts_group", f"The stage cuts_group comes from {BROKEN}."),
        ("drops_request", f"The stage drops_request comes from {BROKEN}."),
    ],
)
def test_a_stage_that_fails_changes_nothing(environment: Environment, name: str, said: str) -> None:
    text = f"moments:\n  before_call:\n    - stage: {name}\n    - {{stage: cap_results, chars: 5, scope: all}}\n"
    policy = environment.write("failing.yaml", text)
    messages, explained, _ = json.loads(environment.run_code(RUN_STAGE, policy, json.dumps(CHAT)).out)
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant", "user"]
    assert said in explained
    assert "before_call/cap_results" in explained  # the rules after it still run


def test_the_user_of_an_agent_is_told(environment: Environment) -> None:
    environment.write("failing.yaml", "moments: {before_call: [{stage: raises}]}\n")
    environment.write(
        "tidegate.yaml",
        "agents: [{id: main, model: {provider: echo, model: m}}]\nwindow: 8000\npolicy: failing.yaml\n"
        "tools: [raising_tool, garbage_tool, misnamed_tool, not_a_tool, count_words]\n",
    )
    done = environment.run("run", "--config", "tidegate.yaml", "--json", "Hello.")
    notices = [event["text"] for event in map(json.loads, done.out.splitlines()) if event["type"] == "notice"]
    assert any(f"The stage raises of {BROKEN} failed (ZeroDivisionError" in notice for notice in notices)
    assert any('The tool "misnamed_tool" of the package tidegate-broken 0.1' in notice for notice in notices)
    assert any('The tool "not_a_tool" of the package tidegate-broken 0.1' in notice for notice in notices)
    assert '"You said: Hello."' in done.out


def test_a_tool_that_fails_gives_a_result_that_says_so(environment: Environment) -> None:
    code = """\
import asyncio
from pathlib import Path
from tidegate import Call, Session
from tidegate.agent.tools.approval import ApprovalRules
from tidegate.agent.tools.plugin_tools import load_tool_plugin
from tidegate.agent.tools.tool import ToolContext
from tidegate.agent.tools.toolbox import Toolbox
from tidegate.plugins import find_plugin

names = ("raising_tool", "garbage_tool", "count_words")
tools = [load_tool_plugin(find_plugin("tool", name)) for name in names]
box = Toolbox(tools, approval=ApprovalRules(default_verdict="allow"))
for name, arguments in zip(names, ("{}", "{}", '{"text": "a b"}')):
    context = ToolContext(Path("."), Session("m", window=8000))
    result = asyncio.run(box.run_call(Call("c", name, arguments), context))
    print(result.is_error, result.text)
"""
    raising, garbage, good = environment.run_code(code).out.splitlines()
    assert raising == "True It failed: LookupError: no such thing"
    assert garbage == f'True The tool "garbage_tool" of {BROKEN} returned a int, not a ToolResult with a text.'
    assert good == "False 2 words"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("raising_provider", "failed: ValueError: lost my way"),
        ("garbage_provider", "sent a str that is neither a Delta nor a Reply"),
        ("silent_provider", "ended without a reply"),
        ("odd_reply", "sent a reply that is not valid in openai_chat"),
        ("odd_dialect", "speaks the dialect 'morse', which is not one of"),
        ("no_provider", "made a NoneType, which has no method stream"),
        ("failing_provider", "did not open: OSError: no network"),
    ],
)
def test_a_broken_provider_is_an_error_with_its_name(environment: Environment, name: str, said: str) -> None:
    environment.write("tidegate.yaml", f"agents: [{{id: main, model: {{provider: {name}, model: m}}}}]\nwindow: 8000\n")
    done = environment.run("run", "--config", "tidegate.yaml", "--session", name, "Hello.", expect=None)
    assert done.status in (1, 2)
    assert f'The provider "{name}" of {BROKEN} {said}' in " ".join((done.out + done.err).split())


def test_a_broken_importer_does_not_keep_others_from_reading(environment: Environment) -> None:
    code = (
        "import sys; from pathlib import Path; from tidegate.lab.importers import read_recordings;"
        "from tidegate import BadInput\n"
        "for path in sys.argv[1:]:\n"
        "    try: print(len(read_recordings(Path(path))[0].messages))\n"
        "    except BadInput as bad: print(bad)\n"
    )
    chat = environment.write("chat.jsonl", "".join(json.dumps(line) + "\n" for line in CHAT))
    interview = environment.write("ann.jsonl", '{"speaker": "interviewer", "says": "Why?"}\n')
    unknown = environment.write("unknown.jsonl", '{"nothing": "known"}\n')
    shown = environment.run_code(code, chat, interview, unknown).out.splitlines()
    assert shown[:2] == ["5", "1"]
    assert "not a known format" in shown[2]
    assert f'The importer "broken" of {BROKEN} failed on' in shown[2]


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("raising://user:hunter2secret@host/x", "did not open: OSError: cannot reach ***"),
        ("nostore://host", "made a object, which has no append, read, head, sessions, fork, delete, close"),
    ],
)
def test_a_broken_store_is_an_error_without_the_password(environment: Environment, url: str, said: str) -> None:
    (environment.folder / "data").mkdir()
    failed = environment.run("sessions", "--store", url, expect=None)
    assert failed.status == 2
    assert f"of {BROKEN} {said}" in failed.err
    assert "hunter2secret" not in failed.out + failed.err


def test_nothing_else_breaks(environment: Environment) -> None:
    recording = environment.write("chat.jsonl", "".join(json.dumps(line) + "\n" for line in CHAT))
    assert "default" in environment.run("policies").out
    environment.run("replay", recording, "--policy", "default", "--window", "8000")
