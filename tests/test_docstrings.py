"""Every public class and method has a docstring, and `help(Session)` stands alone."""

import inspect
import pydoc
from collections.abc import Iterator

import tidegate
from tidegate import Session
from tidegate.session.conversation import LiveConversation
from tidegate.session.history import History
from tidegate.session.policy_runner import Recovery, SessionRules
from tidegate.session.recall import Recalled
from tidegate.session.request import SentRequest

RETURNED = (LiveConversation, History, Recovery, SessionRules, Recalled, SentRequest)


def undocumented(cls: type) -> Iterator[str]:
    if not cls.__doc__:
        yield cls.__name__
    for name, member in vars(cls).items():
        function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        documented = inspect.isfunction(function) or isinstance(function, property)
        if not name.startswith("_") and documented and not function.__doc__:
            yield f"{cls.__name__}.{name}"


def test_every_public_class_and_method_has_a_docstring() -> None:
    public = [getattr(tidegate, name) for name in tidegate.__all__]
    classes = {each for each in public if isinstance(each, type)} | set(RETURNED)
    ours = {base for cls in classes for base in cls.__mro__ if base.__module__.startswith("tidegate.")}
    assert len(ours) > 30
    assert sorted(name for cls in ours for name in undocumented(cls)) == []
    assert [each.__name__ for each in public if inspect.isfunction(each) and not each.__doc__] == []


def test_help_of_session_explains_every_parameter() -> None:
    text = pydoc.plain(pydoc.render_doc(Session))
    for name in inspect.signature(Session).parameters:
        assert f"`{name}`" in text, name
    for name in ("prepare", "record", "overflowed", "history", "rules", "recovery", "explain"):
        assert f"`{name}" in str(Session.__doc__), name


def test_the_face_of_a_session_is_small() -> None:
    names = [name for name in dir(Session) if not name.startswith("_")]
    methods = [name for name in names if inspect.isfunction(getattr(Session, name))]
    assert len([name for name in methods if not name.endswith("_async")]) <= 15
    assert len(inspect.signature(Session).parameters) <= 15
    assert all(isinstance(getattr(Session, name), property) for name in set(names) - set(methods))
