"""Who may do what."""

import pytest

from tidegate.agent.tools.approval import STANDARD_APPROVAL, ApprovalRules, decide_approval

RULES = ApprovalRules(
    verdicts={"read": "allow", "write": "deny", "gh__*": "deny", "gh__get_*": "allow", "gh__get_all": "ask"},
    allow_commands=("git status", "ls", "pytest *"),
    deny_commands=("rm -rf", "git push"),
)


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("read", "allow"),
        ("write", "deny"),
        ("edit", "ask"),
        ("gh__delete", "deny"),
        ("gh__get_one", "allow"),
        ("gh__get_all", "ask"),
        ("READ", "ask"),
    ],
)
def test_by_name(name: str, verdict: str) -> None:
    assert decide_approval(RULES, name, {}).verdict == verdict


ALLOWED = ["git status", " git\tstatus ", "'git' sta\"tus\"", "ls", "pytest", "pytest tests/a", "pytest a 'b c'"]


@pytest.mark.parametrize("command", ALLOWED)
def test_commands_that_are_covered_whole(command: str) -> None:
    assert decide_approval(RULES, "shell", {"command": command}).verdict == "allow"


ASKED = [
    *[
        "git status && ls",
        "git status; ls",
        "git status -s",
        "ls -la",
        "ls x",
        "git stat",
        "git statusx",
        "gitstatus",
        "FOO=1 git status",
        "env git status",
        "ls > f",
        "ls < f",
    ],
    *["ls $(id)", "ls `id`", "ls $HOME", "cat f", "git status && cat f", "ls;cat f", "ls & cat f", "ls | cat"],
    *[
        "ls || cat f",
        "pytest -x",
        "pytest a -x",
        '"git status"',
        "ls \\; cat f",
        "ls 'unclosed",
        "ls ;; ls",
        "(ls)",
        "ls &&& ls",
    ],
    *[
        "{ ls; }",
        "sh -c 'ls'",
        "ls\ncat f",
        "ls\rcat f",
        "",
        " ",
        ";",
        "git",
        "ls 'a'$(id)",
        "! ls",
        "ls # x\ncat f",
    ],
]


def test_everything_else_is_asked() -> None:
    assert [each for each in ASKED if decide_approval(RULES, "shell", {"command": each}).verdict != "ask"] == []


DENIED = [
    *["rm -rf /", "ls; rm -rf x", "sudo rm -rf x", "sh -c 'rm -rf x'", "/bin/rm -rf x", "echo $(rm -rf x)"],
    *["git status && git push", "ls\nrm  -rf x", 'bash -c "cd x && rm -rf y"', "true|rm -rf x"],
]


def test_what_is_denied_is_denied_wherever_it_stands() -> None:
    for command in DENIED:
        ruling = decide_approval(RULES, "shell", {"command": command})
        assert ruling.verdict == "deny", command
        assert "commands with" in ruling.reason, command


def test_a_denied_tool_is_denied_whatever_the_command() -> None:
    assert (
        decide_approval(
            ApprovalRules(verdicts={"shell": "deny"}, allow_commands=("ls",)), "shell", {"command": "ls"}
        ).verdict
        == "deny"
    )


def test_rules_for_commands_are_for_the_shell_alone() -> None:
    assert decide_approval(RULES, "other", {"command": "ls"}).verdict == "ask"
    assert decide_approval(RULES, "shell", {"command": ["ls"]}).verdict == "ask"


def test_the_standard_lets_look_and_asks_before_it_changes() -> None:
    verdicts = {
        name: decide_approval(STANDARD_APPROVAL, name, {}).verdict
        for name in ("read", "grep", "recall", "write", "shell", "x__y")
    }
    assert verdicts == {
        "read": "allow",
        "grep": "allow",
        "recall": "allow",
        "write": "ask",
        "shell": "ask",
        "x__y": "ask",
    }
