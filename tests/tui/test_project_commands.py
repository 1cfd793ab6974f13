"""Plan mode, the project file, the review of what was changed, and the cost by purpose, by keys."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from pathlib import Path

from tests.tui.stage import on_stage, played
from tidegate.core.messages import Call
from tidegate.models.provider import Delta, Reply
from tidegate.models.scripted_provider import ScriptedAnswer, ScriptedProvider, ScriptStep
from tidegate.session.costs import CostReport


def edit(ident: str, old: str, new: str) -> ScriptedAnswer:
    return ScriptedAnswer(calls=(Call(ident, "edit", json.dumps({"path": "ports.py", "old": old, "new": new})),))


def test_in_plan_mode_nothing_is_changed_until_it_is_off(tmp_path: Path) -> None:
    async def play() -> None:
        look = ScriptedAnswer(calls=(Call("c0", "read", '{"path": "ports.py"}'),))
        first, second = edit("c1", "8443", "9000"), edit("c2", "8443", "9000")
        provider = ScriptedProvider("openai_chat", [look, first, "The plan.", second, "Done."])
        async with on_stage(tmp_path, provider) as stage:
            file = tmp_path / "work" / "ports.py"
            file.write_text("PORT = 8443\n")
            await stage.say("/plan")
            await stage.sees("plan mode: the agent only reads")
            await stage.say("Change it.")
            await stage.sees("The plan.")
            await stage.idle()
            assert "May edit run?" not in stage.text()
            assert file.read_text() == "PORT = 8443\n"
            assert b"the user wants a plan first" in provider.requests[2]
            assert b"PORT = 8443" in provider.requests[1], "reading is allowed"
            await stage.say("/model openai/other")  # another agent is opened: the mode stays
            await stage.sees("openai/other answers from now on")
            await stage.until(lambda: stage.app.agent_ready and stage.agent.agent.toolbox.plan_mode)
            await stage.say("/plan")  # only "off" approves a plan
            await stage.sees("Plan mode is on already")
            assert stage.agent.agent.toolbox.plan_mode
            await stage.say("/plan maybe")
            await stage.sees("Plan mode is on: /plan off approves")
            await stage.say("/plan off")
            await stage.until(lambda: "plan mode: the agent only reads" not in stage.text())
            await stage.say("Go.")
            await stage.sees("May edit run?")
            await stage.press("1")
            await stage.sees("Done.")
            assert file.read_text() == "PORT = 9000\n"

    played(play)


def test_a_review_lists_the_changed_files_with_diffs(tmp_path: Path) -> None:
    async def play() -> None:
        steps: list[ScriptStep] = [
            edit("c1", "8443", "9000"),
            edit("c2", "missing", "x"),
            edit("c3", "9000", "9001"),
            "Done.",
        ]
        async with on_stage(tmp_path, steps, size=(100, 40)) as stage:
            (tmp_path / "work" / "ports.py").write_text("PORT = 8443\n")
            await stage.say("Change it.")
            await stage.sees("May edit run?")
            await stage.press("2")
            await stage.sees("Done.")
            await stage.idle()
            await stage.say("/review")
            await stage.sees("ports.py  +2 -2  (2 edits)")
            review = stage.text()[stage.text().index("(2 edits)") :]
            assert "- 8443" in review
            assert "+ 9001" in review
            assert "missing" not in review

    played(play)


def test_init_writes_the_project_file_once(tmp_path: Path) -> None:
    async def play() -> None:
        async with on_stage(tmp_path, size=(100, 40)) as stage:
            work = tmp_path / "work"
            (work / "Makefile").write_text("test:\n")
            (work / "src").mkdir()
            await stage.say("/init")
            await stage.sees("AGENTS.md is written")
            text = (work / "AGENTS.md").read_text()
            assert "- `make test`" in text
            assert "- `src/`" in text
            (work / "AGENTS.md").write_text("mine")
            await stage.say("/init")
            await stage.sees("AGENTS.md exists already.")
            assert (work / "AGENTS.md").read_text() == "mine"

    played(play)


class Hanging(ScriptedProvider):
    """Stops in the middle of its second answer."""

    async def stream(self, request: bytes) -> AsyncGenerator[Delta | Reply, None]:
        async for each in super().stream(request):
            yield each
            if len(self.requests) == 2:
                await asyncio.Event().wait()


def test_the_cost_is_separated_by_purpose_also_after_an_interrupt(tmp_path: Path) -> None:
    async def play() -> None:
        steps = ["One.", "Half an answer.", "Two.", "## Goal\nPorts.\n## Next steps\nNone.\n"]
        provider = Hanging("openai_chat", steps, count=lambda raw: len(raw) // 4)
        async with on_stage(tmp_path, provider, size=(110, 40)) as stage:
            await stage.say("First. " * 200)
            await stage.sees("One.")
            await stage.idle()
            await stage.say("Second.")
            await stage.sees("Half an")
            await stage.press("escape")
            await stage.sees("Interrupted.")
            await stage.say("Third.")
            await stage.sees("Two.")
            await stage.idle()
            await stage.say("/compact")
            await stage.sees("takes it back")
            await stage.say("/cost")
            for words in ("  answers: ", "  interrupted answers: ", "  summaries: "):
                await stage.sees(words)
            lines = [
                line for line in stage.lines() if re.search(r"calls,|  (answers|interrupted answers|summaries): ", line)
            ]
            numbers = [
                int(match[1].replace(",", "")) for line in lines if (match := re.search(r": ([\d,]+) tokens", line))
            ]
            report = CostReport(stage.agent.session.log)
            assert sum(numbers) == report.read_all().tokens
            assert "2 calls" in lines[0]

    played(play)
