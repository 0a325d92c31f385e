"""Chooses at run time whether the calls of a program use one thread or all of them.

A program that was compiled without a ``threads=`` starts on all threads. Each call is timed. A few
calls are made on all threads and a few on one, the medians of the last five are compared, and the
faster way is kept: all threads only where they save more than a sixteenth. After a pause the other
way is tried again; the pause starts short and doubles each time the choice is confirmed, up to a
limit, and ends sooner where the last trial lost so little that it is worth repeating, as beside
another program all threads are now much faster and now no better. When calls take a quarter longer
than their score, something has changed, such as another program that came to one of the cores, and
the other way is tried at once. A call of less work than ``BUSY`` runs on one thread and is not
timed. Results have the same bits either way, so a choice is never wrong, only slow.

A program has one block of words (``Head``), then a record for each power of two of work, as
calls of different sizes may prefer different ways. Python threads that call at once share the
records: every access is atomic, and a lost update costs one sample.
"""

from __future__ import annotations

from enum import IntEnum, auto

from dlvm.gen.text.module import FunctionWriter, Text

from . import tape

BUSY = 3_000_000
"""Picoseconds of work from which on a call is worth a clock and a lock."""
SMALLEST, RECORDS = 20, 26
"""The logarithm of the least work that has a record, and the number of records."""
SKIPPED = 2
"""Calls of a trial that are never counted: caches are cold and the worker may be asleep."""
WARM_UP = 200_000
"""Nanoseconds of a trial that are never counted, for the same reason."""
SAMPLES = 5
"""Calls whose median is a score."""
PATIENCE = 8
"""Calls in a row after which a median that is a quarter above the score is believed."""
LONGEST = 32
"""The longest pause between two trials, in multiples of the time that the last one took.

Nor is it longer than so many times what that trial lost.
"""


class Head(IntEnum):
    """Words before the records: the threads of a call, their pool, and three functions."""

    MANY = 0
    POOL = auto()
    BEGIN = auto()
    END = auto()
    CLOCK = auto()


class Record(IntEnum):
    """What is known of calls of about the same work; all words are zero at first.

    ``WAY`` is how calls run now. ``SEEN`` calls took ``SPENT`` nanoseconds since that began, and
    the last ``COUNTED`` of them are samples. ``SCORE`` is the median of the way that ``WAY`` is
    compared with, or of ``WAY`` itself once a choice is made; for the last ``SLOWER`` calls the
    median has been a quarter above it.
    """

    WAY = 0
    STATE = auto()
    SEEN = auto()
    SPENT = auto()
    COUNTED = auto()
    SCORE = auto()
    PAUSE = auto()
    FACTOR = auto()
    SLOWER = auto()
    SAMPLE = auto()  # the first of SAMPLES words


ALL, ONE = 0, 1
FIRST, TRYING, SETTLED = range(3)
SIZE = 16
WORDS = len(Head) + SIZE * RECORDS


def functions() -> str:
    """``choice_begin`` and ``choice_end``, which go around a call, and ``choice_note``."""
    text = Text()
    for name in ("umin", "umax"):
        text.declarations[name] = f"declare i64 @llvm.{name}.i64(i64, i64)"
    text.declarations["usub.sat"] = "declare i64 @llvm.usub.sat.i64(i64, i64)"
    text.declarations["ctlz"] = "declare i64 @llvm.ctlz.i64(i64, i1)"
    return "\n".join([*text.declarations.values(), _begin(text), _end(text), _note(text)])


class _Words:
    """Words that several threads read and write."""

    def __init__(self, w: FunctionWriter, base: str) -> None:
        self.w, self.base = w, base

    def at(self, index: int | str) -> str:
        return self.w.value(f"getelementptr i64, ptr {self.base}, i64 {index}")

    def get(self, index: int | str) -> str:
        return self.w.value(f"load atomic i64, ptr {self.at(index)} monotonic, align 8")

    def set(self, index: int | str, value: str) -> None:
        self.w.do(f"store atomic i64 {value}, ptr {self.at(index)} monotonic, align 8")


def _begin(text: Text) -> str:
    """``choice_begin(choice, work, context)`` writes the number of threads into a call's context.

    It gives the time, or 0 where the call is too short to be timed.
    """
    w = FunctionWriter(text)
    short = w.value(f"icmp sle i64 %work, {BUSY}")
    way = _Words(w, _record(w)).get(Record.WAY)
    one = w.value(f"or i1 {short}, {w.value(f'icmp eq i64 {way}, {ONE}')}")
    head = _Words(w, "%choice")
    context = _Words(w, "%context")
    threads = w.value(f"select i1 {one}, i64 1, i64 {head.get(Head.MANY)}")
    pool = w.value(f"select i1 {one}, i64 0, i64 {head.get(Head.POOL)}")
    context.set(tape.THREADS, threads)
    context.set(tape.POOL, pool)
    long = w.value(f"xor i1 {short}, true")
    started = w.maybe(long, "i64", "0", lambda: _now(w))
    header = "i64 @choice_begin(ptr %choice, i64 %work, ptr %context)"
    return w.function(header, last=f"ret i64 {started}")


def _end(text: Text) -> str:
    """``choice_end(choice, work, context, started)`` notes how long the call took."""
    w = FunctionWriter(text)
    with w.when(w.value("icmp ne i64 %started, 0")):
        took = w.value(f"sub i64 {_now(w)}, %started")
        threads = _Words(w, "%context").get(tape.THREADS)
        way = w.value(f"zext i1 {w.value(f'icmp eq i64 {threads}, 1')} to i64")
        w.do(f"call void @choice_note(ptr {_record(w)}, i64 {way}, i64 {took})")
    return w.function("void @choice_end(ptr %choice, i64 %work, ptr %context, i64 %started)")


def _record(w: FunctionWriter) -> str:
    """The record of calls of this much work."""
    zeros = w.value("call i64 @llvm.ctlz.i64(i64 %work, i1 false)")
    least = w.value(f"call i64 @llvm.umin.i64(i64 {zeros}, i64 {63 - SMALLEST})")
    index = w.value(f"sub i64 {63 - SMALLEST}, {least}")
    known = w.value(f"call i64 @llvm.umin.i64(i64 {index}, i64 {RECORDS - 1})")
    first = w.value(f"mul i64 {known}, {SIZE}")
    return w.value(
        f"getelementptr i64, ptr %choice, i64 {w.value(f'add i64 {first}, {len(Head)}')}"
    )


def _now(w: FunctionWriter) -> str:
    """The time in nanoseconds."""
    time = w.array("[2 x i64]", 16)
    clock = w.value(f"inttoptr i64 {_Words(w, '%choice').get(Head.CLOCK)} to ptr")
    w.value(f"call i32 {clock}(i32 1, ptr {time})")
    found = _Words(w, time)
    seconds, rest = found.get(0), found.get(1)
    return w.value(f"add i64 {w.value(f'mul i64 {seconds}, 1000000000')}, {rest}")


def _note(text: Text) -> str:
    """``choice_note(record, way, took)``: what is learnt from one call."""
    w = FunctionWriter(text)
    record = _Words(w, "%record")
    _leave_unless(w, w.value(f"icmp eq i64 %way, {record.get(Record.WAY)}"))
    seen = w.value(f"add i64 {record.get(Record.SEEN)}, 1")
    spent = w.value(f"add i64 {record.get(Record.SPENT)}, %took")
    record.set(Record.SEEN, seen)
    record.set(Record.SPENT, spent)
    _leave_unless(w, w.value(f"icmp ugt i64 {seen}, {SKIPPED}"))
    _leave_unless(w, w.value(f"icmp ugt i64 {spent}, {WARM_UP}"))
    before = record.get(Record.COUNTED)
    place = w.value(f"urem i64 {before}, {SAMPLES}")
    record.set(w.value(f"add i64 {place}, {Record.SAMPLE:d}"), "%took")
    counted = w.value(f"add i64 {before}, 1")
    record.set(Record.COUNTED, counted)
    _leave_unless(w, w.value(f"icmp uge i64 {counted}, {SAMPLES}"))
    median = _median(w, [record.get(Record.SAMPLE + i) for i in range(SAMPLES)])
    state = record.get(Record.STATE)
    with w.either(w.value(f"icmp eq i64 {state}, {TRYING}")) as otherwise:
        _judge(w, record, median, (seen, spent))
        otherwise()
        _reconsider(w, record, median, (state, spent))
    record.set(Record.SEEN, "0")
    record.set(Record.SPENT, "0")
    record.set(Record.COUNTED, "0")
    record.set(Record.SLOWER, "0")
    return w.function("void @choice_note(ptr %record, i64 %way, i64 %took)")


def _judge(w: FunctionWriter, record: _Words, median: str, trial: tuple[str, str]) -> None:
    """Keep the faster way of two: all threads where they save more than a sixteenth."""
    seen, spent = trial
    other = record.get(Record.SCORE)
    trying_one = w.value(f"icmp eq i64 %way, {ONE}")
    one = w.value(f"select i1 {trying_one}, i64 {median}, i64 {other}")
    many = w.value(f"select i1 {trying_one}, i64 {other}, i64 {median}")
    enough = w.value(f"sub i64 {one}, {w.value(f'lshr i64 {one}, 4')}")
    shared = w.value(f"icmp ult i64 {many}, {enough}")
    best = w.value(f"select i1 {shared}, i64 {ALL}, i64 {ONE}")
    confirmed = w.value(f"icmp ne i64 {best}, %way")
    double = w.value(f"shl i64 {record.get(Record.FACTOR)}, 1")
    longer = w.value(f"select i1 {confirmed}, i64 {double}, i64 0")
    least = w.value(f"call i64 @llvm.umax.i64(i64 {longer}, i64 1)")
    factor = w.value(f"call i64 @llvm.umin.i64(i64 {least}, i64 {LONGEST})")
    record.set(Record.FACTOR, factor)
    score = w.value(f"select i1 {shared}, i64 {many}, i64 {one}")
    useful = w.value(f"mul i64 {seen}, {score}")
    lost = w.value(f"call i64 @llvm.usub.sat.i64(i64 {spent}, i64 {useful})")
    paid = w.value(f"mul i64 {lost}, {LONGEST}")
    enough = w.value(f"call i64 @llvm.umax.i64(i64 {paid}, i64 {spent})")
    pause = w.value(f"mul i64 {spent}, {factor}")
    record.set(Record.PAUSE, w.value(f"call i64 @llvm.umin.i64(i64 {pause}, i64 {enough})"))
    record.set(Record.SCORE, score)
    record.set(Record.WAY, best)
    record.set(Record.STATE, f"{SETTLED}")


def _reconsider(w: FunctionWriter, record: _Words, median: str, now: tuple[str, str]) -> None:
    """Try the other way if neither was tried, the pause is over, or calls have become slower."""
    state, spent = now
    first = w.value(f"icmp eq i64 {state}, {FIRST}")
    due = w.value(f"icmp uge i64 {spent}, {record.get(Record.PAUSE)}")
    score = record.get(Record.SCORE)
    high = w.value(f"add i64 {score}, {w.value(f'lshr i64 {score}, 2')}")
    slower = w.value(f"icmp ugt i64 {median}, {high}")
    row = w.value(f"add i64 {record.get(Record.SLOWER)}, 1")
    times = w.value(f"select i1 {slower}, i64 {row}, i64 0")
    record.set(Record.SLOWER, times)
    changed = w.value(f"icmp uge i64 {times}, {PATIENCE}")
    _leave_unless(w, w.value(f"or i1 {first}, {w.value(f'or i1 {due}, {changed}')}"))
    record.set(Record.SCORE, median)
    record.set(Record.WAY, w.value(f"xor i64 %way, {ONE}"))
    record.set(Record.STATE, f"{TRYING}")


def _leave_unless(w: FunctionWriter, condition: str) -> None:
    gone, going = w.name("gone"), w.name("go")
    w.branch(condition, going, gone)
    w.label(gone)
    w.do("ret void")
    w.label(going)


def _median(w: FunctionWriter, five: list[str]) -> str:
    """The middle one of five numbers."""

    def least(x: str, y: str) -> str:
        return w.value(f"call i64 @llvm.umin.i64(i64 {x}, i64 {y})")

    def most(x: str, y: str) -> str:
        return w.value(f"call i64 @llvm.umax.i64(i64 {x}, i64 {y})")

    a, b, c, d, e = five
    low, high = most(least(a, b), least(c, d)), least(most(a, b), most(c, d))
    return most(least(low, high), least(most(low, high), e))
