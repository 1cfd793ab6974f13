"""Edits of files as diffs: in cards, in questions, in the plain chat's text."""

import json
from pathlib import Path

from rich.color import Color, ColorSystem
from textual.theme import BUILTIN_THEMES

from tests.tui.stage import Stage, on_stage, played
from tidegate.agent.tools.approval import ApprovalQuestion
from tidegate.agent.tools.files.file_change import DiffLine, FileChange, compare_lines, find_file_change
from tidegate.core.messages import Call
from tidegate.core.text.secrets import SecretMask
from tidegate.models.scripted_provider import ScriptedAnswer
from tidegate.terminal.output import TextSanitizer
from tidegate.tui.approval_prompt import format_question
from tidegate.tui.themes import DARK_THEME, LIGHT_THEME, list_theme_names, make_palette

BEFORE = "\n".join(f"line {number}" for number in range(1, 21)) + "\n"


def call(tool: str, **arguments: object) -> ScriptedAnswer:
    return ScriptedAnswer(calls=(Call("c1", tool, json.dumps(arguments)),))


def backgrounds(stage: Stage, words: str) -> set[str]:
    """The background colors of the line of the screen that has these words."""
    strips = stage.app.screen._compositor.render_strips()
    strip = next(strip for strip in strips if words in strip.text)
    return {
        segment.style.bgcolor.name.lower()
        for segment in strip
        if segment.style is not None and segment.style.bgcolor is not None
    }


def inks(stage: Stage, words: str) -> set[str]:
    strip = next(strip for strip in stage.app.screen._compositor.render_strips() if words in strip.text)
    return {segment.style.color.name for segment in strip if segment.style is not None and segment.style.color}


def test_an_edit_is_asked_about_and_shown_as_a_colored_diff(tmp_path: Path) -> None:
    async def play() -> None:
        edit = call("edit", path="src/ports.py", old="PORT = 8443\nHOST = 'a'\n", new="PORT = 9000\nHOST = 'a'\n")
        async with on_stage(tmp_path, [edit, "Done."]) as stage:
            (tmp_path / "work" / "src").mkdir()
            file = tmp_path / "work" / "src" / "ports.py"
            file.write_text("PORT = 8443\nHOST = 'a'\n")
            await stage.say("Change the port.")
            await stage.sees("May edit run?")
            prompt = stage.text()[stage.text().index("May edit run?") :]
            assert "src/ports.py  +1 -1" in prompt
            assert "- PORT = 8443" in prompt
            assert "+ PORT = 9000" in prompt
            await stage.press("1")
            await stage.sees("Done.")
            await stage.idle()
            assert file.read_text() == "PORT = 9000\nHOST = 'a'\n"
            await stage.sees("▸ edit  src/ports.py  +1 -1")
            palette = make_palette(stage.app.theme_variables, dark=True)
            ground = stage.app.theme_variables["background"]
            assert backgrounds(stage, "+ PORT = 9000") == {palette.added.lower(), ground.lower()}
            assert backgrounds(stage, "- PORT = 8443") == {palette.removed.lower(), ground.lower()}
            assert len(inks(stage, "+ PORT = 9000")) > 3  # the sign, the name, the operator and the number
            await stage.press("ctrl+o")
            await stage.sees("Changed src/ports.py")

    played(play)


def test_a_long_diff_is_shortened_until_its_card_is_opened(tmp_path: Path) -> None:
    async def play() -> None:
        write = call("write", path="new.txt", text=BEFORE)
        async with on_stage(tmp_path, [write, "Done."], size=(100, 50)) as stage:
            await stage.say("Write it.")
            await stage.sees("May write run?")
            await stage.press("1")
            await stage.sees("Done.")
            await stage.idle()
            assert "+ line 8" in stage.text()
            assert "+ line 9" not in stage.text()
            assert "… 12 more lines" in stage.text()
            await stage.press("ctrl+o")
            await stage.sees("+ line 20")

    played(play)


def test_a_file_that_is_overwritten_is_compared_with_what_it_has_now(tmp_path: Path) -> None:
    async def play() -> None:
        write = call("write", path="there.txt", text=BEFORE.replace("line 10\n", "line ten\n"))
        async with on_stage(tmp_path, [write, "Done."]) as stage:
            (tmp_path / "work" / "there.txt").write_text(BEFORE)
            await stage.say("Write it.")
            await stage.sees("there.txt  +1 -1")
            await stage.sees("- line 10")

    played(play)


def test_only_a_call_whose_arguments_are_all_known_is_a_change() -> None:
    assert find_file_change(
        "Edit", '{"file_path": "a", "old_string": "x", "new_string": "y", "replace_all": true}'
    ) == (FileChange("a", "x", "y", is_everywhere=True))
    assert find_file_change("edit", {"path": "a", "old": "x", "new": "y", "also": "rm -rf /"}) is None
    assert find_file_change("post", {"path": "a", "text": "x"}) is None
    assert find_file_change("edit", "{nonsense") is None


def test_lines_that_stay_are_left_out_between_changes() -> None:
    after = BEFORE.replace("line 2\n", "").replace("line 19\n", "line 19\nline 19b\n")
    diff = compare_lines(FileChange("a", BEFORE, after))
    assert (diff.added, diff.removed) == (1, 1)
    assert DiffLine("…", "11 lines are the same") in diff.lines
    assert [line.text for line in diff.lines if line.mark in "+-"] == ["line 2", "line 19b"]


def test_a_question_about_an_edit_shows_no_secret_and_no_control_character() -> None:
    key = "sk-ant-" + "a1B2" * 12
    arguments = {"path": "a\x1b[2J.py", "old": "x = 1\n", "new": f"key = '{key}'\x1b]0;me\x07\n"}
    question = ApprovalQuestion("edit", arguments, "rule")
    lines = format_question(question, TextSanitizer(SecretMask()), 60, find_file_change("edit", arguments))
    text = "\n".join(line.text for line in lines)
    assert key not in text
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "+ key = " in text
    assert "control characters that are not shown" in text


def test_added_and_removed_lines_differ_on_a_terminal_with_256_colors() -> None:
    themes = {**BUILTIN_THEMES, DARK_THEME.name: DARK_THEME, LIGHT_THEME.name: LIGHT_THEME}
    for name in list_theme_names():
        palette = make_palette(themes[name].to_color_system().generate(), dark=themes[name].dark)
        shown = [Color.parse(each).downgrade(ColorSystem.EIGHT_BIT).number for each in (palette.added, palette.removed)]
        assert shown[0] != shown[1], name
        assert not any(number is None or number > 231 for number in shown), name  # those are the grays
