"""Chooses at run time whether the calls of a program use one thread or all of them.

A program that was compiled without ``threads=`` starts on all threads, and each call is timed. Once
five calls have a median, a *trial* runs the other way. A call of a trial that is slower than the
border between the ways is a loss, and three losses end the trial, as does the first call that is a
quarter slower than the median by more than a warm-up explains, where calls are as long as that.
Otherwise five calls adopt the other way. All threads must save more than a sixteenth to be used.

Trials are paid for: after a trial that confirmed the way of before, calls take a hundred times as
long as that trial lost before the next one begins. One call may be late by chance, so the first
trial that a single call ended is repeated without a pause: once, or up to three times where that
call took more than four times the score, which the number of threads hardly explains. The first
trial of a call of a millisecond or more waits in the same way for what it is expected to lose, if
the time that was estimated for one thread is far above the median on all. When the median of calls
stays a quarter above its score, something has changed, such as another program that came to one of
the cores, and half of the pause is enough.

A call of less work than ``BUSY`` runs on one thread and is not timed. Results have the same bits
either way, so a choice is never wrong, only slow.

A program has one block of words (``Head``), then a record for each power of two of work, as
calls of different sizes may prefer different ways. Python threads that call at once share the
records: every access is atomic, and a lost update costs one sample.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from enum import IntEnum, auto

from dlvm.cost import PICOSECONDS
from dlvm.gen.text.module import FunctionWriter, Text

from . import call_words

BUSY = 3_000_000
"""Picoseconds of work from which on a call is worth a clock and a lock."""
SMALLEST, RECORDS = 20, 26
"""The logarithm of the least work that has a record, and the number of records."""
SKIPPED = 1
"""Calls that are never counted after the way has changed: caches are cold."""
WARM_UP = 200_000
"""Nanoseconds of calls that are never counted, as the worker may be asleep."""
SAMPLES = 5
"""Calls whose median is a score."""
LOSSES = 3
"""Slower calls that end a trial: with so many, the median of ``SAMPLES`` calls is slower, too."""
PATIENCE = 8
"""Calls in a row after which a median that is a quarter above the score is believed."""
REPEATS = 3
"""How often a trial is repeated without a pause that ended with a call of four times the score."""
PRICE = 100
"""The pause after a trial, in multiples of the time that the trial lost."""
DEAR = 1_000_000
"""Nanoseconds of a call from which on an estimate may put off the first trial."""


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
    the last ``COUNTED`` of them are samples. ``SCORE`` is the median of the way that a trial is
    compared with, or of ``WAY`` itself between trials. ``SLOWER`` counts the losses of a trial;
    between trials it counts the last calls in a row at which the median was a quarter above the
    score. The next trial begins when ``SPENT`` reaches ``PAUSE``, or ``HELD`` if calls have become
    slower. ``REPEATED`` counts the trials that kept the way since it was adopted.
    """

    WAY = 0
    STATE = auto()
    SEEN = auto()
    SPENT = auto()
    COUNTED = auto()
    SCORE = auto()
    PAUSE = auto()
    HELD = auto()
    REPEATED = auto()
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
        return self.w.step("i64", self.base, index)

    def get(self, index: int | str) -> str:
        return self.w.load("i64", self.at(index), 8, order="monotonic")

    def set(self, index: int | str, value: str) -> None:
        self.w.store("i64", value, self.at(index), 8, order="monotonic")


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
    context.set(call_words.THREADS, threads)
    context.set(call_words.POOL, pool)
    long = w.value(f"xor i1 {short}, true")
    started = w.maybe(long, "i64", "0", lambda: _now(w))
    header = "i64 @choice_begin(ptr %choice, i64 %work, ptr %context)"
    return w.function(header, last=f"ret i64 {started}")


def _end(text: Text) -> str:
    """``choice_end(choice, work, context, started)`` notes how long the call took."""
    w = FunctionWriter(text)
    with w.when(w.value("icmp ne i64 %started, 0")):
        took = w.value(f"sub i64 {_now(w)}, %started")
        threads = _Words(w, "%context").get(call_words.THREADS)
        way = w.value(f"zext i1 {w.value(f'icmp eq i64 {threads}, 1')} to i64")
        many = w.value(f"mul i64 {took}, {_Words(w, '%choice').get(Head.MANY)}")
        estimate = w.value(f"udiv i64 %work, {PICOSECONDS}")
        alone = w.value(f"call i64 @llvm.umin.i64(i64 {estimate}, i64 {many})")
        given = f"ptr {_record(w)}, i64 {way}, i64 {took}, i64 {alone}"
        w.do(f"call void @choice_note({given})")
    return w.function("void @choice_end(ptr %choice, i64 %work, ptr %context, i64 %started)")


def _record(w: FunctionWriter) -> str:
    """The record of calls of this much work."""
    zeros = w.value("call i64 @llvm.ctlz.i64(i64 %work, i1 false)")
    least = w.value(f"call i64 @llvm.umin.i64(i64 {zeros}, i64 {63 - SMALLEST})")
    index = w.value(f"sub i64 {63 - SMALLEST}, {least}")
    known = w.value(f"call i64 @llvm.umin.i64(i64 {index}, i64 {RECORDS - 1})")
    first = w.value(f"mul i64 {known}, {SIZE}")
    return w.step("i64", "%choice", w.value(f"add i64 {first}, {len(Head)}"))


def _now(w: FunctionWriter) -> str:
    """The time in nanoseconds."""
    time = w.array("[2 x i64]", 16)
    clock = w.value(f"inttoptr i64 {_Words(w, '%choice').get(Head.CLOCK)} to ptr")
    w.value(f"call i32 {clock}(i32 1, ptr {time})")
    found = _Words(w, time)
    seconds, rest = found.get(0), found.get(1)
    return w.value(f"add i64 {w.value(f'mul i64 {seconds}, 1000000000')}, {rest}")


def _note(text: Text) -> str:
    """``choice_note(record, way, took, alone)``: what is learnt from one call.

    ``alone`` is how long it would take on one thread by the estimate, and no longer than it would
    if its threads shared the work evenly.
    """
    w = FunctionWriter(text)
    record = _Words(w, "%record")
    _leave_unless(w, w.value(f"icmp eq i64 %way, {record.get(Record.WAY)}"))
    seen = w.value(f"add i64 {record.get(Record.SEEN)}, 1")
    spent = w.value(f"add i64 {record.get(Record.SPENT)}, %took")
    record.set(Record.SEEN, seen)
    record.set(Record.SPENT, spent)
    several = w.value(f"icmp ugt i64 {seen}, {SKIPPED}")
    later = w.value(f"icmp ugt i64 {spent}, {WARM_UP}")
    warm = w.value(f"and i1 {several}, {later}")
    state = record.get(Record.STATE)
    with w.when(w.value(f"icmp eq i64 {state}, {TRYING}")):
        _end_if_slower(w, record, warm, (seen, spent))
    _leave_unless(w, warm)
    before = record.get(Record.COUNTED)
    place = w.value(f"urem i64 {before}, {SAMPLES}")
    record.set(w.value(f"add i64 {place}, {Record.SAMPLE:d}"), "%took")
    counted = w.value(f"add i64 {before}, 1")
    record.set(Record.COUNTED, counted)
    _leave_unless(w, w.value(f"icmp uge i64 {counted}, {SAMPLES}"))
    median = _median(w, [record.get(Record.SAMPLE + i) for i in range(SAMPLES)])
    with w.either(w.value(f"icmp eq i64 {state}, {TRYING}")) as otherwise:
        _settle(w, record, score=median, pause=spent, held="0")
        record.set(Record.REPEATED, "0")
        otherwise()
        _reconsider(w, record, median, (state, spent))
    _begin_anew(record)
    return w.function("void @choice_note(ptr %record, i64 %way, i64 %took, i64 %alone)")


def _end_if_slower(w: FunctionWriter, record: _Words, warm: str, trial: tuple[str, str]) -> None:
    """Go back to the other way if this call of a trial is clearly slower, or the third loss."""
    seen, spent = trial
    score = record.get(Record.SCORE)
    late = w.value(f"add i64 {_quarter_above(w, score)}, {WARM_UP}")
    slow = w.value(f"icmp ugt i64 %took, {late}")
    long = w.value(f"icmp uge i64 {score}, {WARM_UP}")
    clear = w.value(f"and i1 {slow}, {long}")
    loses = w.value(f"and i1 {warm}, {_loses(w, score)}")
    losses = w.value(f"add i64 {record.get(Record.SLOWER)}, {w.value(f'zext i1 {loses} to i64')}")
    record.set(Record.SLOWER, losses)
    enough = w.value(f"icmp uge i64 {losses}, {LOSSES}")
    with _leaving(w, w.value(f"or i1 {clear}, {enough}")):
        useful = w.value(f"mul i64 {seen}, {score}")
        lost = w.value(f"call i64 @llvm.usub.sat.i64(i64 {spent}, i64 {useful})")
        # Whatever took three times as long and more says little of the way.
        most = w.value(f"shl i64 {useful}, 1")
        charge = w.value(f"call i64 @llvm.umin.i64(i64 {lost}, i64 {most})")
        price = w.value(f"mul i64 {charge}, {PRICE}")
        paid = w.value(f"call i64 @llvm.umax.i64(i64 {price}, i64 {spent})")
        strange = w.value(f"icmp ugt i64 %took, {w.value(f'shl i64 {score}, 2')}")
        limit = w.value(f"select i1 {strange}, i64 {REPEATS}, i64 1")
        repeated = record.get(Record.REPEATED)
        few = w.value(f"icmp ult i64 {repeated}, {limit}")
        again = w.value(f"and i1 {clear}, {few}")
        pause = w.value(f"select i1 {again}, i64 0, i64 {paid}")
        record.set(Record.REPEATED, w.value(f"add i64 {repeated}, 1"))
        _settle(w, record, score=score, pause=pause, held=w.value(f"lshr i64 {pause}, 1"))
        record.set(Record.WAY, w.value(f"xor i64 %way, {ONE}"))
        _begin_anew(record)


def _loses(w: FunctionWriter, score: str) -> str:
    """Whether a call that took this long is on the wrong side of the border between the ways."""
    one = w.value(f"sub i64 %took, {w.value('lshr i64 %took, 4')}")
    many = w.value(f"sub i64 {score}, {w.value(f'lshr i64 {score}, 4')}")
    one_loses = w.value(f"icmp ugt i64 {one}, {score}")
    many_lose = w.value(f"icmp uge i64 %took, {many}")
    trying_one = w.value(f"icmp eq i64 %way, {ONE}")
    return w.value(f"select i1 {trying_one}, i1 {one_loses}, i1 {many_lose}")


def _reconsider(w: FunctionWriter, record: _Words, median: str, now: tuple[str, str]) -> None:
    """Try the other way if neither was tried, the pause is over, or calls have become slower."""
    state, spent = now
    first = w.value(f"icmp eq i64 {state}, {FIRST}")
    with _leaving(w, w.value(f"and i1 {first}, {_far(w, median)}")):
        expected = w.value(f"sub i64 %alone, {median}")
        pause = w.value(f"mul i64 {expected}, {PRICE}")
        _settle(w, record, score=median, pause=pause, held="0")
    slower = w.value(f"icmp ugt i64 {median}, {_quarter_above(w, record.get(Record.SCORE))}")
    row = w.value(f"add i64 {record.get(Record.SLOWER)}, 1")
    times = w.value(f"select i1 {slower}, i64 {row}, i64 0")
    record.set(Record.SLOWER, times)
    believed = w.value(f"icmp uge i64 {times}, {PATIENCE}")
    allowed = w.value(f"icmp uge i64 {spent}, {record.get(Record.HELD)}")
    changed = w.value(f"and i1 {believed}, {allowed}")
    due = w.value(f"icmp uge i64 {spent}, {record.get(Record.PAUSE)}")
    _leave_unless(w, w.value(f"or i1 {first}, {w.value(f'or i1 {due}, {changed}')}"))
    record.set(Record.SCORE, median)
    record.set(Record.WAY, w.value(f"xor i64 %way, {ONE}"))
    record.set(Record.STATE, f"{TRYING}")


def _far(w: FunctionWriter, median: str) -> str:
    """Whether the estimate leaves no doubt of calls that are dear to try on one thread."""
    dear = w.value(f"icmp uge i64 {median}, {DEAR}")
    above = w.value(f"icmp ugt i64 %alone, {_quarter_above(w, median)}")
    return w.value(f"and i1 {dear}, {above}")


def _settle(w: FunctionWriter, record: _Words, score: str, pause: str, held: str) -> None:
    """Between trials from now on."""
    record.set(Record.STATE, f"{SETTLED}")
    record.set(Record.SCORE, score)
    record.set(Record.PAUSE, pause)
    record.set(Record.HELD, held)


def _begin_anew(record: _Words) -> None:
    """Nothing of the next calls was seen."""
    for word in (Record.SEEN, Record.SPENT, Record.COUNTED, Record.SLOWER):
        record.set(word, "0")


def _quarter_above(w: FunctionWriter, time: str) -> str:
    return w.value(f"add i64 {time}, {w.value(f'lshr i64 {time}, 2')}")


@contextmanager
def _leaving(w: FunctionWriter, condition: str) -> Generator[None]:
    """What is written inside runs where the condition holds, and the function ends after it."""
    gone, going = w.name("gone"), w.name("go")
    w.branch(condition, gone, going)
    w.label(gone)
    yield
    w.do("ret void")
    w.label(going)


def _leave_unless(w: FunctionWriter, condition: str) -> None:
    with _leaving(w, w.value(f"xor i1 {condition}, true")):
        pass


def _median(w: FunctionWriter, five: list[str]) -> str:
    """The middle one of five numbers."""

    def least(x: str, y: str) -> str:
        return w.value(f"call i64 @llvm.umin.i64(i64 {x}, i64 {y})")

    def most(x: str, y: str) -> str:
        return w.value(f"call i64 @llvm.umax.i64(i64 {x}, i64 {y})")

    a, b, c, d, e = five
    low, high = most(least(a, b), least(c, d)), least(most(a, b), most(c, d))
    return most(least(low, high), least(most(low, high), e))
