"""`tidegate demo --tour`: the terminal app with tools, without a model or a key.

The answers are a script, and the app says so. The tools are real: they read, edit and run in a temporary folder. Cards,
questions, diffs and a compaction can be seen within a minute.
"""

import asyncio
import json
import tempfile
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path
from typing import Final

from tidegate.agent.config.launch import LaunchOptions
from tidegate.commands.agent_commands import CONNECT_TEXT
from tidegate.core.messages import Call
from tidegate.core.tokens.estimate import TokenEstimator
from tidegate.datafolder.data_folder import DataFolder
from tidegate.models.scripted_provider import ScriptedAnswer, ScriptedProvider, ScriptStep
from tidegate.proof.chat_proof import ChatObserver, print_proof, prove_chat
from tidegate.proof.demo.chat_demo import DEMO_SESSION, create_demo_launch, run_unattended
from tidegate.proof.demo.script import DemoStep, GuideScript, ScriptedInput
from tidegate.terminal.exit_codes import EXIT_FAILED, EXIT_OK
from tidegate.tui.plain.chat_streams import ChatOutput, has_interactive_terminal

TOUR_WINDOW: Final = 8_000
_MODEL: Final = {"provider": "openai", "model": "scripted"}
_END_TEXT: Final = f"This was the last answer of the script; no model is connected.\n\n{CONNECT_TEXT}"
_WORKERS: Final = (1, 2, 3, 4)
_LOG_LINES: Final = 30
_FILES: Final = {
    "ports.py": 'HOST = "db7"\nPORT = 8443\n\n\ndef address() -> str:\n    return f"{HOST}:{PORT}"\n',
    **{
        f"worker-{worker}.log": "".join(
            f"2026-11-16 14:{number:02d}:{worker}7 worker {worker} finished job {worker}{100 + number}\n"
            for number in range(_LOG_LINES)
        )
        for worker in _WORKERS
    },
}
_SUMMARY: Final = (
    "## Goal\nMove the service to port 9000.\n## Done\nports.py has PORT = 9000; the command that prints the address"
    " shows db7:9000.\n## Next steps\nNone.\n"
)
_COMMAND: Final = "python3 -c 'import ports; print(ports.address())' || grep PORT ports.py"

TOUR_SCRIPT: Final = GuideScript(
    "This is a scripted tour: no model answers here. The tools are real; they work in a folder that is deleted at the"
    " end.",
    (
        DemoStep("Which port does the service use?", "The agent looks: each tool is a card, which ctrl+o opens."),
        DemoStep("Move it to port 9000.", "Before a file is changed you are asked, with the diff. 1 allows it once."),
        DemoStep("Does it work?", "The same for a command. esc would deny it."),
        DemoStep("Is anything wrong in the logs?", "Long files fill the window."),
        DemoStep("Which worker finished last?"),
        DemoStep("/compact", "Now the window is compacted: what leaves the window stays in the log."),
        DemoStep("/recall 8443", "And from there it is read again."),
    ),
    f"The tour is over, and the chat is yours; it has no more answers. F2 shows what fills the window, /undo takes the"
    f" compaction back, ctrl+q leaves.\n\n{CONNECT_TEXT}",
)


def list_tour_answers() -> Iterator[ScriptStep]:
    """Yield the answers of the script, then without end that there are no more."""
    edit = {"path": "ports.py", "old": "PORT = 8443", "new": "PORT = 9000"}
    answers: tuple[ScriptStep, ...] = (
        _call_tools("I look at the files.", ("list", {"path": "."}), ("read", {"path": "ports.py"})),
        "The service listens on **port 8443** (`ports.py`, line 2).",
        _call_tools("I change the one line.", ("edit", edit)),
        "Done: `PORT` is 9000 now.",
        _call_tools("I print the address.", ("shell", {"command": _COMMAND})),
        "Yes, the address has the new port.",
        _call_tools("I read all of them.", *(("read", {"path": f"worker-{worker}.log"}) for worker in _WORKERS)),
        f"No: {len(_WORKERS) * _LOG_LINES} jobs, and all of them finished.",
        "Worker 4, with job 4129.",
        _SUMMARY,
    )
    return chain(answers, repeat(_END_TEXT))


def _count_tokens(request: bytes) -> int:
    return TokenEstimator().count_text(request.decode("utf-8", "replace"))


def _call_tools(text: str, *calls: tuple[str, dict[str, str]]) -> ScriptedAnswer:
    made = tuple(Call(f"{name}-{place}", name, json.dumps(given)) for place, (name, given) in enumerate(calls))
    return ScriptedAnswer(text=text, calls=made)


class TourInput(ScriptedInput):
    """The tour as the input of a plain chat. It agrees to what the script asks for."""

    can_ask = True

    async def read_answer(self, out: ChatOutput, prompt: str) -> str | None:
        out.write_line(f"{prompt}y")
        return "y"


def run_tour(policy: str, window: int = 0) -> int:
    """Play the tour in a temporary folder and print the proof. The result is the exit status."""
    with tempfile.TemporaryDirectory(prefix="tidegate-tour-") as folder:
        return _play_tour(Path(folder), policy, window or TOUR_WINDOW)


def _play_tour(folder: Path, policy: str, window: int) -> int:
    workspace = folder / "work"
    workspace.mkdir()
    launch = create_demo_launch(workspace, policy, window, _MODEL)
    for name, text in _FILES.items():
        (workspace / name).write_text(text)
    provider = ScriptedProvider("openai_chat", list_tour_answers(), count=_count_tokens)

    def provider_for(_: LaunchOptions) -> ScriptedProvider:
        return provider

    observer = ChatObserver(DEMO_SESSION, window)
    data = DataFolder(folder / "data", secrets=[])
    try:
        if has_interactive_terminal():
            from tidegate.proof.demo.guided_app import run_guided_demo

            status = run_guided_demo(data, launch, workspace, observer, script=TOUR_SCRIPT, provider_for=provider_for)
        else:
            lines = TourInput(TOUR_SCRIPT)
            status = asyncio.run(run_unattended(data, launch, workspace, observer, lines, provider_for=provider_for))
    finally:
        data.close()
    proof = prove_chat(observer, folder / "data")
    print_proof(proof)
    return status or (EXIT_OK if proof.holds else EXIT_FAILED)
