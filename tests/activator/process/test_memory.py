"""The memory of a process: checks for garbage, and memory that returns to the kernel.

Each test has a process of its own, since the collector belongs to the process.
"""

from __future__ import annotations

import subprocess
import sys

#: A cycle that outlives two checks, a process whose size the test sets, and its pauses.
BEGIN = """
import gc
import weakref
from activator.process.memory import TWICE, YOUNG, Memory

class Cycle:
    def __init__(self):
        self.itself = self

size, pauses = [100 << 20], []
memory = Memory(pauses.append, lambda: size[0])
memory.begin()

def fill(number):
    return [[] for _ in range(number)]

old = Cycle()
is_left = weakref.ref(old)
kept = fill(3 * YOUNG)
memory.look(waiting=0)
del old
"""


def outcome(program: str) -> str:
    """Return what a program prints, without the last line end."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    )
    return done.stdout.rstrip()


def test_objects_that_survive_are_not_checked_again() -> None:
    told = outcome(
        f"{BEGIN}"
        "number = len(pauses)\n"
        "kept += fill(3 * YOUNG)\n"
        "print(number >= 2, len(pauses) > number, bool(is_left()), gc.get_freeze_count() > 9)"
    )
    assert told == "True True True True"


def test_garbage_that_was_in_use_at_a_first_check_is_found_soon() -> None:
    told = outcome(
        f"import activator.process.memory as limits\nlimits.TWICE = 60.0\n{BEGIN}"
        "one = Cycle()\n"
        "young = weakref.ref(one)\n"
        "kept += fill(3 * YOUNG)\n"
        "del one\n"
        "kept += fill(3 * YOUNG)\n"
        "print(bool(young()), end=' ')\n"
        "memory.look(waiting=0)\n"
        "print(bool(young()), bool(is_left()))"
    )
    assert told == "True False True"


def test_too_many_objects_are_checked_only_once() -> None:
    told = outcome(
        f"{BEGIN}"
        "before, at = gc.get_freeze_count(), len(pauses)\n"
        "while gc.get_freeze_count() < before + YOUNG:\n"
        "    kept += fill(YOUNG + 1)\n"
        "print(sum(pauses[at:]) > TWICE)"
    )
    assert told == "True"


def test_young_garbage_is_found_by_number() -> None:
    told = outcome(
        f"{BEGIN}young = weakref.ref(Cycle())\nkept += fill(3 * YOUNG)\nprint(bool(young()))"
    )
    assert told == "False"


def test_young_garbage_is_found_although_as_many_objects_are_freed() -> None:
    told = outcome(
        f"{BEGIN}"
        "import asyncio\n"
        "from tests.conftest import VirtualLoop\n"
        "gc.enable()\n"  # the import disables it
        "young = weakref.ref(Cycle())\n"
        "with asyncio.Runner(loop_factory=VirtualLoop) as runner:\n"
        "    keeping = asyncio.wait_for(memory.keep(lambda: 0), 3)\n"
        "    try:\n"
        "        runner.run(keeping)\n"
        "    except TimeoutError:\n"
        "        print(bool(young()))"
    )
    assert told == "False"


def test_a_process_that_has_grown_looks_for_old_garbage() -> None:
    told = outcome(
        f"{BEGIN}"
        "size[0] = 130 << 20\n"
        "memory.look(waiting=0)\n"
        "print(bool(is_left()), end=' ')\n"
        "size[0] = 140 << 20\n"
        "memory.look(waiting=0)\n"
        "print(bool(is_left()))"
    )
    assert told == "True False"


def test_while_requests_wait_only_much_growth_is_a_reason() -> None:
    told = outcome(
        f"{BEGIN}"
        "size[0] = 200 << 20\n"
        "memory.look(waiting=1)\n"
        "print(bool(is_left()), end=' ')\n"
        "size[0] = 210 << 20\n"
        "memory.look(waiting=1)\n"
        "print(bool(is_left()))"
    )
    assert told == "True False"


def test_growth_counts_from_the_least_size_since_then() -> None:
    told = outcome(
        f"{BEGIN}"
        "for mib in (130, 50, 80):\n"
        "    size[0] = mib << 20\n"
        "    memory.look(waiting=0)\n"
        "    print(bool(is_left()), end=' ')"
    )
    assert told == "True True False"


def test_freed_memory_returns_to_the_kernel_once_no_request_waits() -> None:
    told = outcome(
        """
import ctypes
from activator.process.memory import Memory, resident_bytes
memory = Memory(lambda seconds: None)
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
memory.begin()
before = resident_bytes()
parts = [libc.malloc(1000) for _ in range(12_000)]
for part in parts:
    ctypes.memset(part, 1, 1000)
last = libc.malloc(1000)  # at the end of the heap
for part in parts:
    libc.free(part)
for waiting in (1, 0):
    memory.look(waiting)
    print((resident_bytes() - before) >> 20 < 5, end=" ")
"""
    )
    assert told == "False True"


def test_reads_of_large_bodies_use_the_same_memory_again() -> None:
    """A read takes 256 KiB: 64 pages, which the kernel clears if they were returned to it."""
    program = """
import resource
from activator.process.memory import keep_freed_memory
keep_freed_memory()
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
bytes(256 << 10)
before = faults()
for _ in range(100):
    bytes(256 << 10)
print(faults() - before)
"""
    assert int(outcome(program)) < 640
