"""The example package of docs/extending.md, built, installed and used through the command line and the library."""

import json
from pathlib import Path

import pytest

from tests.plugins.environments import EXAMPLE, Environment, build_environment, lay_out_environment
from tests.scale import mark_all_but

pytestmark = pytest.mark.skipif(not EXAMPLE.exists(), reason="the examples are not in the source distribution")

REPEATED = "the log of the build, line after line. " * 40
POLICY = """\
moments:
  before_call:
    - {stage: shorten_repeats, min_chars: 100}
"""
CONFIG = """\
agents:
  - {id: main, model: {provider: echo, model: echo-1}}
window: 8000
"""


def chat_lines() -> str:
    """A recording in which the same tool result occurs twice."""
    lines: list[dict[str, object]] = [{"role": "user", "content": "Look at the build."}]
    for ident in ("a", "b"):
        call = {"id": ident, "type": "function", "function": {"name": "read", "arguments": "{}"}}
        lines.append({"role": "assistant", "content": None, "tool_calls": [call]})
        lines.append({"role": "tool", "tool_call_id": ident, "content": REPEATED})
    lines.append({"role": "assistant", "content": "Done."})
    return "".join(json.dumps(line) + "\n" for line in lines)


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return lay_out_environment(tmp_path, EXAMPLE)


@pytest.mark.parametrize("is_installed", mark_all_but([False, True], False), ids=["laid out", "installed"])
def test_every_plugin_is_listed_and_works(is_installed: bool, tmp_path: Path) -> None:
    """The other tests lay the package out; here it is also built and installed from its wheel."""
    environment = (build_environment if is_installed else lay_out_environment)(tmp_path, EXAMPLE)
    shown = environment.run("plugins").out.splitlines()
    assert [line.split()[:2] for line in shown] == [
        ["importer", "interview"],
        ["provider", "echo"],
        ["stage", "shorten_repeats"],
        ["store", "lines"],
        ["tool", "count_words"],
    ]
    assert all("(tidegate-example 1.0: tidegate_example." in line for line in shown)


def test_stage_is_used_from_a_policy_file(environment: Environment) -> None:
    recording = environment.write("talk.jsonl", chat_lines())
    policy = environment.write("repeats.yaml", POLICY)
    shown = environment.run("replay", recording, "--policy", policy, "--window", "8000", "--json").out
    assert '"shorten_repeats"' in shown
    code = (
        "import sys; from tidegate import Session, load; s = Session('m', window=8000, policy=load(sys.argv[1]));"
        "import json; [s.add(json.loads(line)) for line in open(sys.argv[2]).read().splitlines()];"
        "print(json.dumps(s.prepare().messages))"
    )
    messages = json.loads(environment.run_code(code, policy, recording).out)
    texts = [message["content"] for message in messages if message["role"] == "tool"]
    assert texts == ["[the same text as in m5, which is still shown]", REPEATED]


def test_a_setting_of_the_stage_is_checked(environment: Environment) -> None:
    policy = environment.write("wrong.yaml", POLICY.replace("100", "many"))
    recording = environment.write("talk.jsonl", chat_lines())
    failed = environment.run("replay", recording, "--policy", policy, "--window", "8000", expect=None)
    assert failed.status != 0
    assert 'wrong.yaml:3: "min_chars" in stage shorten_repeats is "many"' in failed.err


def test_provider_answers_and_tool_is_offered(environment: Environment) -> None:
    environment.write("tidegate.yaml", f"{CONFIG}tools: [count_words]\n")
    done = environment.run("run", "--config", "tidegate.yaml", "--json", "How many words?")
    events = [json.loads(line) for line in done.out.splitlines()]
    assert "".join(each["text"] for each in events if each["type"] == "text") == "You said: How many words?"
    code = """\
import asyncio
from pathlib import Path
from tidegate.agent.config.files import ConfigFiles, read_config
from tidegate.agent.runtime import open_agent
from tidegate.core.messages import Call

async def main():
    config = read_config(ConfigFiles(Path("tidegate.yaml"), Path("none.yaml"), True), {})
    async with open_agent(config, data=None, name="x", workspace=Path("."), environment={}) as agent:
        print(sorted(tool.name for tool in agent.session.view.tools))
        print(agent.connection.provider.model)
        call = Call("c1", "count_words", '{"text": "one two three"}')

        async def agree(question):
            return True

        agent.agent.toolbox.ask = agree
        print((await agent.agent.toolbox.run_call(call, agent.agent.context)).text)

asyncio.run(main())
"""
    tools, model, result = environment.run_code(code).out.splitlines()
    assert "'count_words'" in tools
    assert "'read'" in tools
    assert (model, result) == ("echo-1", "3 words")


def test_provider_is_chosen_on_the_command_line(environment: Environment) -> None:
    environment.write("own.yaml", "window: 8000\n")
    done = environment.run("run", "--config", "own.yaml", "--model", "echo/echo-2", "Hello.")
    assert "You said: Hello." in done.out


def test_importer_reads_its_format_and_leaves_others_alone(environment: Environment) -> None:
    lines = [{"speaker": "interviewer", "says": "Why?"}, {"speaker": "Ann", "says": "Because."}]
    interview = environment.write("ann.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    code = (
        "import sys; from pathlib import Path; from tidegate.lab.importers import read_recordings;"
        "[print(r.origin.format, [m['role'] for m in r.messages])"
        " for path in sys.argv[1:] for r in read_recordings(Path(path))]"
    )
    chat = environment.write("chat.jsonl", chat_lines())
    shown = environment.run_code(code, interview, chat).out.splitlines()
    assert shown[0] == "interview ['user', 'assistant']"
    assert "interview" not in shown[1]
    assert environment.run("import", interview).status == 0


def test_store_keeps_sessions(environment: Environment) -> None:
    environment.write("tidegate.yaml", CONFIG)
    url = f"lines:///{environment.folder / 'kept'}"
    environment.run("run", "--config", "tidegate.yaml", "--store", url, "--session", "kept", "Hello.")
    assert "kept" in environment.run("sessions", "--store", url).out
    assert "model is echo-1" in environment.run("show", "kept", "--store", url).out
    assert len(list((environment.folder / "kept").glob("*.lines"))) == 1


@pytest.mark.exhaustive
def test_store_conforms(environment: Environment) -> None:
    code = """\
import sys, tempfile, time
from pathlib import Path
from tidegate import open_store
from tidegate.store.conformance import suite

urls = {}

def make():
    url = "lines:///" + tempfile.mkdtemp(dir=sys.argv[1])
    store = open_store(url, time.time)
    urls[id(store)] = store, url
    return store

checks = suite(make, lambda store: open_store(urls[id(store)][1], time.time))
for check in checks:
    check.run()
print(len(checks))
"""
    assert int(environment.run_code(code, environment.folder).out) > 10


def test_nothing_is_searched_until_a_plugin_is_needed(environment: Environment) -> None:
    """The module that searches for packages is not even loaded by `import tidegate`, nor by a session."""
    code = (
        "import sys, tidegate;"
        "s = tidegate.Session('m', window=8000); s.add({'role': 'user', 'content': 'Hi'}); s.prepare();"
        "print([name in sys.modules for name in ('importlib.metadata', 'tidegate_example')])"
    )
    assert environment.run_python("-c", code).out.strip() == "[False, False]"


def test_a_module_needs_no_package(environment: Environment) -> None:
    environment.write("own_stages.py", "from tidegate_example.stage import shorten_repeats as mine\n")
    policy = environment.write("own.yaml", 'moments: {before_call: [{stage: "own_stages:mine"}]}\n')
    code = "import sys, tidegate; print(tidegate.load(sys.argv[1]).moments['before_call'][0].stage)"
    shown = environment._replace(site=f"{environment.site}:{environment.folder}").run_code(code, policy)
    assert shown.out.strip() == "own_stages:mine"
