"""The comparison itself: it must be able to fail."""

import numpy as np
import pytest
from bounds import BOUNDS, difference

pytestmark = pytest.mark.smoke

X = np.array([1.0, 100.0, -3.0], np.float32)
NAN = np.array([1, np.nan, 1], np.float32)
INF = np.array([1, np.inf, 1], np.float32)


@pytest.mark.parametrize("got, want, bound", [
    (np.nextafter(X, 0), X, (0, 0)),
    (X + np.float32([0, 0, 1e-4]), X, (16, 2)),
    (X * NAN, X, (100, 100)),
    (X, X * NAN, (100, 100)),
    (X * INF, X, (100, 100)),
    (X * -INF, X * INF, (100, 100)),
    (X.astype(np.float64), X, (100, 100)),
    (X[:2], X, (100, 100)),
    (np.float32([3.4e38]), np.float32([np.finfo(np.float32).max]), (8, 0)),
    (np.int8([1, 2]), np.int8([1, 3]), (100, 100)),
    (np.float16([1.0, 1e-5]), np.float16([1.0, 2e-5]), (1, 0)),
])
def test_differs(got, want, bound):
    assert difference(got, want, bound)


@pytest.mark.parametrize("got, want, bound", [
    (np.nextafter(X, 0), X, (1, 0)),
    (X + np.float32([0, 0, 1e-5]), X, (0, 1)),
    (np.float32([np.nan, np.inf]), np.float32([np.nan, np.inf]), (0, 0)),
    (np.float32([1e-40]), np.float32([0]), (0, 0)),
    (np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32), (0, 0)),
])
def test_agrees(got, want, bound):
    assert difference(got, want, bound) is None


def test_float32_made_of_halves():
    assert difference(X * np.float32(1.0005), X, (1, 0))
    assert difference(X * np.float32(1.0005), X, (1, 0), np.float16) is None


def test_every_bound_says_why():
    for bound in BOUNDS.values():
        assert len(bound.why) > 20
        for pair in (bound.f32, bound.f16_reference, bound.f16_xla, bound.f16_tf):
            assert len(pair) == 2 and min(pair) >= 0
