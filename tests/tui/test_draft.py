"""What of a draft was pasted, whatever is done to it afterwards."""

from hypothesis import given
from hypothesis import strategies as st

from tidegate.tui.composer.draft import MAX_DRAFT_PIECES, MAX_TYPED_CHARS, MessageDraft

PASTED = "P\nP"
EDITS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 6), st.sampled_from(["t", "\n", "", PASTED, PASTED, "P" * 201])),
    max_size=12,
)


@given(EDITS)
def test_no_line_with_pasted_text_is_typed_and_no_other_line_is_pasted(edits: list[tuple[int, int, str]]) -> None:
    draft = MessageDraft()
    for place, length, text in edits:
        place = min(place, len(draft.text))
        draft = draft.replace_range(place, min(place + length, len(draft.text)), text)
    pieces = draft.split_typed_and_pasted()
    if draft.text.strip():
        assert "\n".join(text for text, _ in pieces) == draft.text
    for place, (text, typed) in enumerate(pieces):
        for line in filter(str.strip, text.split("\n")):
            assert typed == ("P" not in line) or (place == MAX_DRAFT_PIECES - 1 and not typed)


def test_what_is_typed_stays_typed_however_long_it_gets() -> None:
    draft = MessageDraft()
    for letter in "Never push to main.\n" * 40:
        draft = draft.replace_range(len(draft.text), len(draft.text), letter)
        assert draft == draft.with_text(draft.text)
    assert draft.split_typed_and_pasted() == [(draft.text, True)]
    assert draft.with_text("").with_text("x" * MAX_TYPED_CHARS).split_typed_and_pasted() == [
        ("x" * MAX_TYPED_CHARS, True)
    ]
    assert draft.with_text("").with_text("x" * (MAX_TYPED_CHARS + 1)).split_typed_and_pasted() == [
        ("x" * (MAX_TYPED_CHARS + 1), False)
    ]
