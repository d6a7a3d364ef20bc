"""How pytest-xdist shares the tests out: a file is one process's, because its fixtures and its
import of TensorFlow are; each file of Keras' cases is a process of its own anyway."""

import pytest


def pytest_collection_modifyitems(items):
    for item in items:
        alone = item.get_closest_marker("alone")
        item.add_marker(pytest.mark.xdist_group(item.nodeid if alone else item.location[0]))
