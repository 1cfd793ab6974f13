"""`tidegate lab --probe` against a server that knows what a request tells it, and nothing else."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.calling import run_command
from tests.fake.server import KEY, Fake, Step
from tests.fake.words import refusal
from tests.models.embedded_model import needs_model
from tidegate import BadInput
from tidegate.core.messages import Call
from tidegate.models.scripted_provider import ScriptedAnswer

Json = dict[str, Any]
SECRET = "sk-ant-api03-" + "Zq8vT2mK5xW9" * 8
FORGETFUL = "name: forgetful\nmoments:\n  before_call:\n    - {stage: drop_turns, when: {pressure: '> 0.1'}, keep: 1}\n"


def recording(path: Path, words: int = 50) -> Path:
    """A session of some 80 tokens for each word. Its first message has a port, not said again, and a secret."""
    messages: list[Json] = [{"role": "user", "content": f"The database listens on port 5433.\nThe key is {SECRET}"}]
    for turn in range(8):
        messages += [
            {"role": "assistant", "content": f"Step {turn} is done. " + "The build is fine. " * words},
            {"role": "user", "content": f"Go on with step {turn + 1}. " + "It should be quick. " * words},
        ]
    messages.append({"role": "assistant", "content": "Done."})
    path.write_text("".join(json.dumps(each) + "\n" for each in messages), "utf-8")
    return path


class Reader:
    """Answers from the request alone; asks the tool if there is one and the answer is not there."""

    def __init__(self) -> None:
        self.bodies: list[Json] = []

    def __call__(self, body: Json) -> Step:
        self.bodies.append(body)
        if "port 5433" in json.dumps(body["messages"]):
            return "It was port 5433."
        if body.get("tools") and body["messages"][-1]["role"] == "user":
            return ScriptedAnswer(calls=(Call("c1", "recall", '{"what": "database port"}'),))
        return "unknown"


def probe(tmp_path: Path, reader: Reader, *words: str) -> int:
    async def act() -> int:
        async with Fake("openai_chat", reader) as server:
            patch = pytest.MonkeyPatch()
            patch.setenv("TIDEGATE_OPENAI_BASE_URL", server.url)
            patch.setenv("OPENAI_API_KEY", KEY)
            try:
                return await asyncio.to_thread(
                    run_command,
                    "lab", tmp_path / "session.jsonl", "--window", "2000", "--probe", "--model", "openai/gpt-4o",
                    "--policy", "default", "--policy", tmp_path / "forgetful.yaml",
                    "--cache", tmp_path / "cache", "--jobs", "1", *words,
                )  # fmt: skip
            finally:
                patch.undo()

    return asyncio.run(act())


@pytest.fixture
def session(tmp_path: Path) -> Path:
    (tmp_path / "forgetful.yaml").write_text(FORGETFUL)
    return recording(tmp_path / "session.jsonl")


@pytest.mark.usefixtures("session")
def test_a_policy_that_keeps_the_answer_is_right_and_recall_finds_it_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reader = Reader()
    assert probe(tmp_path, reader, "--json", str(tmp_path / "out.json")) == 0
    report = json.loads((tmp_path / "out.json").read_text("utf-8"))
    right = {(each["policy"], each["with_recall"]): (each["right"], each["asked"]) for each in report["totals"]}
    assert right == {
        ("default", False): (1, 1),
        ("default", True): (1, 1),
        ("forgetful", False): (0, 1),
        ("forgetful", True): (1, 1),
    }
    calls = {(each["policy"], each["with_recall"]): each["recall_calls"] for each in report["totals"]}
    assert calls == {("default", False): 0, ("default", True): 0, ("forgetful", False): 0, ("forgetful", True): 1}
    assert all(each["dollars"] > 0 and each["input_tokens"] > 0 for each in report["totals"])
    out = capsys.readouterr().out
    assert "1/1 100%" in out
    assert "0/1 0%" in out
    assert SECRET not in json.dumps(reader.bodies) + json.dumps(report) + out


@pytest.mark.usefixtures("session")
def test_a_repeated_run_asks_nothing_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert probe(tmp_path, Reader()) == 0
    first = capsys.readouterr().out
    again = Reader()
    assert probe(tmp_path, again) == 0
    assert again.bodies == []
    assert capsys.readouterr().out == first


@pytest.mark.usefixtures("session")
def test_answers_before_a_failure_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Failing(Reader):
        def __call__(self, body: Json) -> Step:
            answer = super().__call__(body)
            return answer if len(self.bodies) <= 2 else refusal("openai_chat", 400, "The prompt is not allowed.")

    assert probe(tmp_path, Failing()) == 1
    assert "did not answer every question" in capsys.readouterr().err
    rest = Reader()
    assert probe(tmp_path, rest) == 0
    assert len(rest.bodies) == 3, "of five requests two were answered before"


@pytest.mark.usefixtures("session")
def test_without_a_model_it_says_what_to_add(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="No model is given"):
        run_command("lab", tmp_path / "session.jsonl", "--window", "2000", "--probe", "--cache", tmp_path / "c")


def test_a_session_without_questions_is_refused(tmp_path: Path) -> None:
    messages = [{"role": role, "content": "word " * 400} for _ in range(8) for role in ("user", "assistant")]
    (tmp_path / "session.jsonl").write_text("".join(json.dumps(each) + "\n" for each in messages), "utf-8")
    (tmp_path / "forgetful.yaml").write_text(FORGETFUL)
    with pytest.raises(BadInput, match="No question can be asked"):
        probe(tmp_path, Reader())


@needs_model
@pytest.mark.exhaustive
def test_the_embedded_model_is_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What it answers is its own affair; every question is asked and answered, without a price."""
    recording(tmp_path / "session.jsonl", 3)
    status = run_command(
        "lab", tmp_path / "session.jsonl", "--window", "200", "--probe", "--model", "embedded/",
        "--policy", "default", "--cache", tmp_path / "cache", "--jobs", "1", "--json", "-",
    )  # fmt: skip
    assert status == 0
    report = json.loads(capsys.readouterr().out)
    assert [(each["asked"], each["failed"]) for each in report["totals"]] == [(1, 0), (1, 0)]
    assert all(row["answer"]["answer"] for row in report["rows"])
