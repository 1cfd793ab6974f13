"""Threat: a rule such as `allow_commands: [git diff]` is read as a prefix, so `git diff --output=/etc/x` runs too.
An allow rule must match a command only if the shell would run exactly the arguments that the rule lists.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.scale import scaled
from tests.security.project import AGENT, Project, calls
from tests.tui.stage import on_stage, played
from tidegate.agent.tools.approval import ApprovalRules, decide_approval
from tidegate.agent.tools.command_rules import intersect_command_rules, parse_command_rule, split_command
from tidegate.models.scripted_provider import ScriptedProvider


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def verdict(rule: str, command: str) -> str:
    return decide_approval(ApprovalRules(allow_commands=(rule,)), "shell", {"command": command}).verdict


# --- through an agent -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        ("git diff", "git diff --output=made"),
        ("git diff *", "git diff --output=made"),
        ("git diff *", "git diff . --output=made"),
        ("sort list", "sort list -o made"),
        ("ls", "ls > made"),
        ("ls", "ls; touch made"),
        ("ls", "ls\ntouch made"),
        ("ls *", "ls $(touch made)"),
        ("ls *", "ls `touch made`"),
        ("ls *", 'ls "$(touch made)"'),
        ("ls", "ls && touch made"),
        ("ls", "ls || touch made"),
        ("*", "touch made"),
        ("tou* *", "touch made"),
        ("git *", "git -c alias.x='!touch made' x"),
    ],
)
def test_nothing_runs_unasked_that_the_rule_does_not_list(project: Project, rule: str, command: str) -> None:
    project.write(user=f"{AGENT}capabilities: {{allow_commands: ['{rule}']}}\n")
    (project.folder / "list").write_text("b\na\n")
    subprocess.run(["git", "init", "-q"], cwd=project.folder, check=True)
    talk = project.talk([calls("shell", command=command), "Done."])
    assert "Denied" in talk.requests[1]
    assert not (project.folder / "made").exists()


@pytest.mark.parametrize(
    ("rule", "command"),
    [
        ("sort list -o made", "sort list -o made"),
        ("touch *", "touch list 'made'"),
        ("touch -c -- made *", "touch -c -- made"),
    ],
)
def test_what_the_rule_lists_runs(project: Project, rule: str, command: str) -> None:
    project.write(user=f"{AGENT}capabilities: {{allow_commands: ['{rule}']}}\n")
    (project.folder / "list").write_text("b\na\n")
    (project.folder / "made").touch()
    assert "exit code 0" in project.talk([calls("shell", command=command), "Done."]).requests[1]


# --- rules and commands -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "allowed", "asked"),
    [
        ("git diff", ["git diff", "git  'diff'"], ["git diff x", "git diff --stat", "git diff -- x", "git"]),
        ("git diff *", ["git diff", "git diff a 'b c' HEAD~1"], ["git diff --stat", "git diff a -x", "git diff '-x'"]),
        ("git diff --stat *", ["git diff --stat", "git diff --stat a"], ["git diff a --stat", "git diff a"]),
        ("git diff -- *", ["git diff --", "git diff -- a"], ["git diff -- -x", "git diff -- a -x", "git diff a"]),
        ("ls", ["ls"], ["/bin/ls", "./ls", "env ls", "FOO=1 ls", "command ls", "\\ls", "l's' -a"]),
        ("/bin/ls", ["/bin/ls"], ["ls", "/bin//ls"]),
        (
            "find . -name '*.py'",
            ["find . -name '*.py'", 'find . -name "*.py"'],
            ["find . -name *.py", "find . -name a.py"],
        ),
        ("echo '*'", ["echo '*'"], ["echo *", "echo a"]),
        ("make A=1", ["make A=1", "make 'A=1'"], ["make A=2", "A=1 make", "make A=~"]),
        (
            "ls *",
            ["ls a#b", "ls a~", "ls a^"],
            ["ls #", "ls ~", "ls a:~", "ls {a,b}", "ls a?", "ls [ab]", "ls !", "ls a\u00a0b"],
        ),
        (
            "cat *",
            ["cat ''"],
            ["cat <a", "cat 2>a", "cat a &", "cat a|b", "cat $A", 'cat "$A"', "cat $'a'", "cat \\\na"],
        ),
        ("git * status", [], ["git status", "git x status", "git * status"]),
        ("git stat*", [], ["git status", "git stat", "git 'stat*'"]),
        ("*", [], ["ls", "*", "'*'"]),
        ("", [], ["", " ", "''"]),
        ("ls && rm", [], ["ls && rm", "ls", "rm"]),
        ("A=1 ls", [], ["A=1 ls", "ls"]),
    ],
)
def test_which_commands_a_rule_allows(rule: str, allowed: list[str], asked: list[str]) -> None:
    assert {command: verdict(rule, command) for command in [*allowed, *asked]} == {
        **dict.fromkeys(allowed, "allow"),
        **dict.fromkeys(asked, "ask"),
    }


def test_the_examples_of_the_documentation_hold() -> None:
    text = (Path(__file__).parents[2] / "docs" / "agent.md").read_text("utf-8")
    table = text.partition("### Command rules")[2].partition("| rule |")[2].partition("\n\n")[0]
    rows = [re.findall(r"`([^`]+)`", cell) for line in table.splitlines()[2:] for cell in line.strip("| ").split(" | ")]
    for (rule,), allowed, asked in zip(rows[::3], rows[1::3], rows[2::3], strict=True):
        verdicts = {command: verdict(rule, command) for command in [*allowed, *asked]}
        assert verdicts == {**dict.fromkeys(allowed, "allow"), **dict.fromkeys(asked, "ask")}
    assert len(rows) == 15


@pytest.mark.parametrize(
    "command",
    [
        *[
            "git push",
            "git push -f",
            "sudo git push",
            "/usr/bin/git push x",
            "sh -c 'git push'",
            "ls; git push",
            "g'i't push",
        ],
        *[
            "git -c alias.x=y push",
            "git -C dir --no-pager push",
            "git\npush",
            "echo $(git push)",
            "A=1 git push",
            "gi\\t push",
        ],
    ],
)
def test_a_deny_rule_matches_broadly(command: str) -> None:
    for rule in ("git push", "git push *", "git p*"):
        approval = ApprovalRules(allow_commands=("git *", command), deny_commands=(rule,), default_verdict="allow")
        assert decide_approval(approval, "shell", {"command": command}).verdict == "deny"


def test_a_deny_rule_is_about_its_own_words() -> None:
    approval = ApprovalRules(deny_commands=("git push", "rm"), default_verdict="allow")
    for command in ("git status", "git log push", "push git", "format", "git"):
        assert decide_approval(approval, "shell", {"command": command}).verdict == "allow"


ODD = st.text(st.sampled_from("ab-=~:#!*?[]{}(),;&|<>$`\\'\"\n\t\r\0 \u00a0é"), max_size=12)


@settings(max_examples=scaled(100))
@example("a 'b c'\"d\"e").via("pieces of one word")
@example("a\t#b").via("a comment")
@given(ODD)
def test_a_command_is_split_as_the_shell_splits_it(command: str) -> None:
    words = split_command(command)
    if words is None:
        return
    script = f"printf '%s\\0' {command}"
    ran = subprocess.run(["bash", "-c", script], capture_output=True, env={"PATH": os.environ["PATH"]}, check=True)
    assert ran.stdout.decode().split("\0")[:-1] == list(words)


WORDS = st.sampled_from(["a", "b", "-x"])
RULES = st.builds(
    lambda words, star: " ".join(["run", *words, *(["*"] if star else [])]), st.lists(WORDS, max_size=3), st.booleans()
)


@settings(max_examples=scaled(40))
@given(st.lists(RULES, max_size=3), st.lists(RULES, max_size=3), st.lists(WORDS, max_size=4))
def test_the_intersection_allows_what_both_allow(one: list[str], other: list[str], words: list[str]) -> None:
    command = " ".join(["run", *words])

    def allowed(rules: tuple[str, ...]) -> bool:
        return decide_approval(ApprovalRules(allow_commands=rules), "shell", {"command": command}).verdict == "allow"

    both = intersect_command_rules(tuple(one), tuple(other))
    assert allowed(tuple(both)) is (allowed(tuple(one)) and allowed(tuple(other)))
    assert all(parse_command_rule(each) is not None for each in both)


# --- what the user is told --------------------------------------------------------------------------------------------


def test_a_rule_is_explained_once_with_its_file_and_line(project: Project) -> None:
    rules = "capabilities:\n  allow_commands:\n    - git diff\n    - pytest *\n    - npm run test*\n"
    project.write(user=AGENT + rules)
    (notice,) = [each for each in project.talk().notices if "allow_commands" in each]
    _, exact, star, useless = notice.splitlines()
    file = project.files.user
    assert exact.startswith(
        f'{file}:4: "git diff" admits no further arguments. To allow further arguments, write "git diff *"'
    )
    assert star.startswith(f'{file}:5: "pytest *" admits further arguments, but no options')
    assert '"pytest --OPTION *"' in star
    assert useless.startswith(f'{file}:6: "npm run test*" matches no command.')
    (again,) = [each for each in project.talk().notices if "allow_commands" in each]
    assert again.splitlines()[1:] == [useless], "what cannot work is said each time"
    project.write(user=AGENT + rules.replace("    - npm run test*\n", "    - ls\n"))
    (new,) = [each for each in project.talk().notices if "allow_commands" in each]
    assert [line for line in new.splitlines() if ' "ls" ' in line] == new.splitlines()[1:]
    assert not any("allow_commands" in each for each in project.talk().notices)


def test_the_command_line_says_it_too(project: Project) -> None:
    project.write(user=f"{AGENT}capabilities: {{allow_commands: [git diff, 'a & b']}}\n")
    shown = project.shown()
    assert shown["capabilities.allow_commands.1"]["note"] == "admits no further arguments"
    assert shown["capabilities.allow_commands.2"]["note"] == "matches no command"


@pytest.mark.exhaustive
def test_always_allows_the_very_command(tmp_path: Path) -> None:
    """In the chat: what was agreed to is asked no more, the same with an option is."""

    async def play() -> None:
        steps = [calls("shell", command=each) for each in ("echo 'a  b'", 'echo "a  b"', "echo 'a  b' -n")]
        provider = ScriptedProvider("openai_chat", [*steps, "Done."])
        async with on_stage(tmp_path, provider) as stage:
            await stage.say("Two?")
            await stage.sees("exactly this command")
            await stage.press("2")
            await stage.sees("command: echo 'a  b' -n")
            assert len(provider.requests) == 3
            await stage.press("3")
            await stage.sees("Done.")
            assert b"The user denied this" in provider.requests[-1]

    played(play)
