"""Which schedules are tried: the fastest known one's neighbours, until nothing gains."""

from __future__ import annotations

import math

import pytest

from dlvm.gen.tune.search import PATIENCE, at_random, best_first


class Hill:
    """Schedules of three numbers, of which one is best and some are refused."""

    values, size = 12, 12**3
    start = (0, 0, 0)
    best = (7, 3, 9)

    class Number:
        values = tuple(range(12))

    numbers = (Number(),) * 3

    def neighbours(self, state):
        for i in range(3):
            for place in (state[i] - 1, state[i] + 1):
                if 0 <= place < self.values:
                    yield (*state[:i], place, *state[i + 1 :])

    def time(self, state):
        if state[0] == 5 and state[1] != 2:
            return None  # a wall with a gap
        return 1 + sum((a - b) ** 2 for a, b in zip(state, self.best, strict=True)) / 10


@pytest.mark.parametrize("seed", range(5))
def test_best_first_finds_the_best_and_tries_few(seed):
    hill = Hill()
    found = best_first(hill, hill.time, lambda: True, seed)
    assert found.best(1) == [hill.best]
    assert found.visited < hill.size / 4
    assert found.refused and not found.refused & set(found.times)


@pytest.mark.parametrize("seed", range(3))
def test_it_finds_more_than_drawing_at_random(seed):
    hill = Hill()
    found = best_first(hill, hill.time, lambda: True, seed)
    left = iter(range(found.visited))
    other = at_random(hill, hill.time, lambda: next(left, None) is not None, seed)
    assert found.times[found.best(1)[0]] < other.times[other.best(1)[0]]


@pytest.mark.parametrize("search", [best_first, at_random])
def test_no_gain_ends_a_search(search):
    hill = Hill()
    found = search(hill, lambda state: 1.0, lambda: True, 0)
    assert PATIENCE < found.visited <= PATIENCE + 6


@pytest.mark.parametrize("search", [best_first, at_random])
def test_time_ends_a_search(search):
    hill, left = Hill(), iter(range(4))
    found = search(hill, hill.time, lambda: next(left, None) is not None, 0)
    assert 1 <= found.visited <= 6


def test_no_state_is_tried_twice():
    hill, tried = Hill(), []

    def measure(state):
        tried.append(state)
        return hill.time(state)

    best_first(hill, measure, lambda: len(tried) < 300, 1)
    assert len(set(tried)) == len(tried)
    assert math.isfinite(hill.time(tried[-1]) or 0.0)
