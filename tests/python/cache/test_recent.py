"""What remembers what was used last (runtime/base/recent.py)."""

from tremula.tf.runtime.base import recent


def test_what_was_used_last_stays():
    values = recent.Recent(3)
    for i in range(3):
        values.put(i, str(i))
    assert values.get(0) == "0"
    values.put(3, "3")
    assert [values.get(i) for i in range(4)] == ["0", None, "2", "3"]


def test_a_new_value_takes_the_place_of_the_old():
    values = recent.Recent(2)
    for key, value in (("a", 1), ("b", 2), ("a", 3), ("c", 4)):
        values.put(key, value)
    assert [values.get(key) for key in "abc"] == [3, None, 4]


def test_keys_that_are_equal_are_one():
    values = recent.Recent(2)
    values.put((1, ("x", b"y")), "found")
    assert values.get((1, ("x", b"y"))) == "found"
    assert values.get((1, ("x", b"z"))) is None
