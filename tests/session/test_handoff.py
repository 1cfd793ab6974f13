"""A handoff: the view of a session as Markdown, for another client."""

import json
import re
from pathlib import Path

from tests.cli.calling import called
from tidegate import Session
from tidegate.datafolder.data_folder import DataFolder
from tidegate.session.handoff import write_handoff

RULE = "Never touch main."
SECRET = "sk-proj-" + "Zq81xyzzy0042AbCd" * 3


def _work(session: Session, steps: int) -> None:
    session.add({"role": "user", "content": f"Find out why the build is slow. {RULE}"})
    for number in range(steps):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "read", "arguments": f'{{"n":{number}}}'}}
        session.add({"role": "assistant", "content": f"Step {number}.", "tool_calls": [call]})
        result = f"line {number} of a result\n" * 40 + "```\n# not a heading of ours\n"
        session.add({"role": "tool", "tool_call_id": f"c{number}", "content": result})
    session.add({"role": "assistant", "content": "# Cause\n\nThe cache of the compiler is off."})


def test_it_has_the_users_words_the_rules_and_the_newest_work() -> None:
    session = Session("gpt-4o", window=100_000)
    _work(session, 60)
    head, before = session.log.head, session.tokens
    handoff = write_handoff(session.log, "slow build", title="Find out why", window=8_000)
    assert handoff.text.startswith("# Handoff: Find out why\n")
    assert f"## Rules that the user typed\n\n- {RULE}\n" in handoff.text
    assert "### User (m1)\n\nFind out why the build is slow." in handoff.text
    assert "#### Cause" in handoff.text, "headings of messages are below those of the document"
    assert 'Called the tool `read`:\n\n```\n{"n":59}\n```' in handoff.text
    assert "Step 59." in handoff.text
    assert "line 1 of a result" not in handoff.text
    assert "tidegate recall slow build m12..m40" in handoff.text
    assert handoff.tokens < 8_000
    assert 0 < handoff.whole < 122
    assert (session.log.head, session.tokens) == (head, before), "the session is not changed"


def test_the_newest_edit_is_there_whole() -> None:
    """Whoever goes on must know what was changed last, and it may not have been written to the disk."""
    session = Session("gpt-4o", window=100_000)
    _work(session, 60)
    patch = "\n".join(f"+ changed line {number} of the pump" for number in range(140))
    arguments = json.dumps({"path": "pump.py", "patch": patch})
    call = {"id": "last", "type": "function", "function": {"name": "edit", "arguments": arguments}}
    session.add({"role": "user", "content": "Now the pump."})
    session.add({"role": "assistant", "content": "", "tool_calls": [call]})
    handoff = write_handoff(session.log, "s", window=8_000)
    assert all(line in handoff.text for line in patch.splitlines())
    assert handoff.tokens < 8_000


def test_a_result_cannot_end_its_own_quote() -> None:
    session = Session("gpt-4o", window=100_000)
    _work(session, 1)
    text = write_handoff(session.log, "s").text
    result = text[text.index("### Result") : text.index("#### Cause")]
    assert result.count("````") == 2
    assert "\n# not a heading of ours\n" in result


def test_reminders_and_thinking_of_a_client_are_left_out() -> None:
    session = Session("claude-opus-5-5", window=100_000)
    reminder = {"type": "text", "text": "<system-reminder>\nThe todo list is empty.\n</system-reminder>"}
    session.add({"role": "user", "content": [reminder, {"type": "text", "text": "Fix the pump."}]})
    thought = {"type": "thinking", "thinking": "A secret thought.", "signature": "c2ln"}
    session.add({"role": "assistant", "content": [thought, {"type": "text", "text": "Fixed."}]})
    text = write_handoff(session.log, "s").text
    assert "Fix the pump." in text
    assert "Fixed." in text
    assert not re.search("todo list|secret thought|c2ln", text)


def test_the_command_writes_it_with_secrets_masked(tmp_path: Path) -> None:
    data = DataFolder(tmp_path / "data")
    with data.open("slow-build", "gpt-4o", window=50_000) as session:
        _work(session, 3)
        session.add({"role": "user", "content": f"The key is {SECRET}, remember it."})
    data.close()
    path = tmp_path / "handoff.md"
    done = called("export", "slow-build", path, "--handoff", "--data", tmp_path / "data")
    assert re.search(r"handoff\.md: about [\d,]+ tokens, \d+ of \d+ messages whole", done.stdout)
    text = path.read_text("utf-8")
    assert text.startswith("# Handoff: Find out why the build is slow.")
    assert SECRET not in text
    again = called("export", "slow-build", path, "--handoff", "--data", tmp_path / "data")
    assert again.returncode != 0, "a file is not overwritten without --force"
    alone = called("export", "slow-build", tmp_path / "other", "--window", 9_000, "--data", tmp_path / "data")
    assert "--window is the size of a handoff" in alone.stderr
