"""The public names: few, all there, and none added or lost by accident."""

import tidegate

NAMES = (
    "BadEdit BadInput BadPolicy BadRequest Budget Call DataFolder Decision Drop Edit Explanation Flush GiveUp Image"
    " Insert Item KeptLog Log MarkedText MemoryLog Message NotKept Outcome Policy Replace Request Result Session"
    " SessionStorage Spill SummaryRequest Text Thinking TidegateError Tool TooSmall View __version__ load managed"
    " open_store"
).split()


def test_the_public_names_are_these() -> None:
    """Changing this list changes what users may rely on: say so in CHANGELOG.md."""
    assert sorted(tidegate.__all__) == sorted(NAMES)
    assert len(NAMES) <= 41


def test_every_public_name_can_be_imported() -> None:
    for name in tidegate.__all__:
        found = getattr(tidegate, name)
        assert found is not None
        if isinstance(found, type):
            assert found.__name__ == name
            assert found.__module__.startswith("tidegate.")
    assert set(tidegate.__all__) <= set(dir(tidegate))


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    assert not hasattr(tidegate, "Manager")


def test_every_error_is_a_tidegate_error() -> None:
    errors = [getattr(tidegate, name) for name in NAMES if name.startswith(("Bad", "TooSmall", "GiveUp"))]
    assert len(errors) == 6
    for error in errors:
        assert issubclass(error, tidegate.TidegateError)
        assert str(error("It broke.", "Mend it.")) == "It broke. Mend it."
