"""The rules for compiled code: each catches a sample of its fault, and the code keeps them all."""

from __future__ import annotations

from pathlib import Path

import pytest

from activator import build
from activator.build import COMPILED
from tests.compiled import lints
from tests.guards import expect_none
from tests.rows import in_one_test

#: The source, wherever it is installed: a compiled build holds it as well.
SOURCE = Path(build.__file__).parents[1]
TESTS = Path(__file__).parents[1]


def path_of(module: str) -> str:
    return f"{module.replace('.', '/')}.py"


def source_of(module: str) -> str:
    return (SOURCE / path_of(module)).read_text()


def test_compiled_modules_keep_the_rules():
    unions = frozenset().union(*map(lints.union_attributes, map(source_of, COMPILED)))
    expect_none(
        f"{path_of(module)}:{finding}"
        for module in COMPILED
        for source in [source_of(module)]
        for rule in (*lints.RULES, lambda source: lints.narrowed_attributes(source, unions))
        for finding in rule(source)
    )


def test_no_interpreted_class_inherits_from_a_compiled_one():
    compiled = frozenset(COMPILED)
    interpreted = [
        path
        for package in ("throttler", "activator")
        for path in sorted((SOURCE / package).rglob("*.py"))
        if ".".join(path.relative_to(SOURCE).with_suffix("").parts) not in compiled
    ]
    expect_none(
        f"{path}:{finding}"
        for path in [*interpreted, *sorted(TESTS.rglob("*.py"))]
        for finding in lints.inheritors(path.read_text(), compiled)
    )


def test_no_test_replaces_a_final_constant_of_a_compiled_module():
    compiled = {module: source_of(module) for module in COMPILED}
    expect_none(
        f"{path}:{finding}"
        for path in sorted(TESTS.rglob("*.py"))
        for finding in lints.replaced_constants(path.read_text(), compiled)
    )


# Samples. Each fault was seen to compile, and to do another thing than the source.


@in_one_test(
    ("text", "caught"),
    [
        ("data[at:-1]", True),
        ("data[1:-1]", True),
        ("data[start:end]", True),
        ("data[3:2]", True),
        ("data[at:-1]  # ordered: at is within", False),
        ("data[at:-1]  # ordered:", True),
        ("data[:-1]", False),
        ("data[0:-1]", False),
        ("data[at:]", False),
        ("data[at : at + length]", False),
        ("data[2:3]", False),
        ("data[start:end:2]", False),
    ],
)
def test_a_slice_that_may_start_beyond_its_stop(text, caught):
    assert bool(lints.slices(text)) is caught


TRY = """
def f():
    try:
        g()
    except {} as {}:
        pass
    except {} as {}:
        pass
"""


@pytest.mark.parametrize(
    ("words", "caught"),
    [
        (("ValueError", "error", "OSError", "error"), True),
        (("ValueError", "error", "OSError", "other"), False),
        (("(ValueError, OSError)", "error", "(ValueError, OSError)", "error"), False),
    ],
)
def test_one_name_for_two_types_of_exceptions(words, caught):
    assert bool(lints.exception_names(TRY.format(*words))) is caught


def test_one_name_in_two_functions_is_no_fault():
    other = TRY.format("ValueError", "error", "ValueError", "error")
    assert not lints.exception_names(other + TRY.format("OSError", "error", "OSError", "error"))


CLASS = """
class A:
    def __init__(self) -> None:
        self.peer: Peer | None = None
        self.sure: Peer = Peer()

    def f(self):
"""


@in_one_test(
    ("body", "caught"),
    [
        (["peer = self.peer = Peer()", "peer.begin()", "return self.peer is not peer"], True),
        (["self.peer = Peer()", "self.begin()", "return self.peer"], True),
        (["if self.peer is None:", "    return 1", "self.begin()", "use(self.peer)"], True),
        (["assert self.peer", "self.begin()", "use(self.peer)"], True),
        (["self.peer = Peer()", "self.begin()", "self.peer.end()"], False),
        (["self.peer = Peer()", "self.begin()", "return self.peer is None"], False),
        (["self.peer = Peer()", "self.begin()", "self.peer = Peer()", "return self.peer"], False),
        (["self.peer = peer", "return self.peer is peer"], False),
        (["self.sure = Peer()", "self.begin()", "return self.sure"], False),
        (["self.peer = None", "self.begin()", "return self.peer"], False),
    ],
)
def test_a_narrow_type_that_a_call_may_have_made_wrong(body, caught):
    text = CLASS + "".join(f"        {line}\n" for line in body)
    assert bool(lints.narrowed_attributes(text)) is caught


def test_an_attribute_that_another_module_declares():
    text = "def f(a, b):\n    a.far = b\n    b.begin()\n    return a.far is b\n"
    assert not lints.narrowed_attributes(text)
    assert lints.narrowed_attributes(text, frozenset({"far"}))


PROTOCOL = "class A({}):\n    def data_received(self, data): ...\n"


@pytest.mark.parametrize(
    ("text", "caught"),
    [
        (PROTOCOL.format(""), True),
        (PROTOCOL.format("asyncio.Protocol"), False),
        (PROTOCOL.format("Protocol"), False),
        (PROTOCOL.format("Base") + "class Base(asyncio.Protocol): ...\n", False),
        (
            PROTOCOL.format("")
            + "".join(f"    def {name}(self): ...\n" for name in lints.CALLBACKS),
            False,
        ),
    ],
)
def test_a_protocol_without_all_callbacks(text, caught):
    assert bool(lints.callbacks(text)) is caught


@pytest.mark.parametrize(
    ("text", "caught"),
    [
        ("class A(Exception):\n    status = 500\n", True),
        ("class A(Exception):\n    status: int = 500\n", True),
        ("class B(Exception): ...\nclass A(B):\n    status = 500\n", True),
        ("class A(Exception):\n    status: ClassVar[int] = 500\n", False),
        ("class A(Exception):\n    '''Words.'''\n    status: int\n", False),
        ("class A:\n    status = 500\n", False),
    ],
)
def test_a_default_of_an_exception(text, caught):
    assert bool(lints.exception_defaults(text)) is caught


@pytest.mark.parametrize(
    ("text", "caught"),
    [
        ("a - b.keys()", True),
        ("a & b.items()", True),
        ("a.keys() - b.keys()", False),
        ("a.difference(b)", False),
        ("a - b", False),
    ],
)
def test_a_set_made_with_the_keys_of_a_dict(text, caught):
    assert bool(lints.set_operators(text)) is caught


@pytest.mark.parametrize(
    ("text", "caught"),
    [
        ("from throttler.ticket import Ticket\nclass A(Ticket): ...", True),
        ("from throttler.ticket import Ticket as T\nclass A(T[int]): ...", True),
        ("from throttler import ticket\nclass A(ticket.Ticket): ...", True),
        ("import throttler.ticket\nclass A(throttler.ticket.Ticket): ...", True),
        ("from activator.app import App\nclass A(App): ...", False),
    ],
)
def test_a_class_that_inherits_from_a_compiled_one(text, caught):
    assert bool(lints.inheritors(text, frozenset({"throttler.ticket"}))) is caught


@pytest.mark.parametrize(
    ("text", "caught"),
    [
        ("from throttler import rendezvous as module\nset(module, 'MOST', 3)", False),
        ("from throttler import rendezvous as module\nm.setattr(module, 'MOST', 3)", True),
        ('from throttler import rendezvous as module\nm.setattr(\n    module, "MOST", 3)', True),
        (
            "from throttler import rendezvous as module\nm.setattr(module, 'MOST', 3)  # pure: a",
            False,
        ),
        ("from throttler import rendezvous as module\nm.setattr(module, 'MOST', 3)  # pure:", True),
        ("from throttler import rendezvous as module\nm.setattr(module, 'OTHER', 3)", False),
        ("from throttler import ticket as module\nm.setattr(module, 'MOST', 3)", False),
    ],
)
def test_a_final_constant_that_a_test_replaces(text, caught):
    compiled = {"throttler.rendezvous": "MOST: Final = 5\nOTHER = 6\n"}
    assert bool(lints.replaced_constants(text, compiled)) is caught
