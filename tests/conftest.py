"""How pytest-xdist shares the tests out: a file is one process's, because its fixtures and its
import of TensorFlow are; each file of Keras' cases is a process of its own anyway. And where Python
looks for garbage: not among what the collected files have imported, which stays."""

import gc

import pytest

# Walks over the objects of an imported TensorFlow took six percent of the time of Keras' cases.
gc.disable()


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(items):
    for item in items:
        alone = item.get_closest_marker("alone")
        item.add_marker(pytest.mark.xdist_group(item.nodeid if alone else item.location[0]))
