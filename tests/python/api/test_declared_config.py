"""Config classes of a program's own, declared by what their __init__ sets."""

import copy
import typing

import pytest
from tensorflow.python.ipu import config as ipu_config


class Inner(ipu_config._ConfigBase):
    def __init__(self):
        self.depth = 3
        """
        How wide.

            indented
        """
        self.width: typing.Union[int, list] = 4

    def _to_protobuf(self, pb):
        pb["inner"] = self.depth
        super()._to_protobuf(pb)


@ipu_config.deprecate_config_attribute("inner", "use another one.")
class Category(ipu_config._ConfigBase):
    def __init__(self):
        """
        The inner one
        """
        self.inner = Inner()
        self.is_on = False


@ipu_config.deprecate_config_attributes({"old": "no longer read."})
class Config(ipu_config._ConfigBase):
    """A config."""

    def __init__(self):
        """
        What it is called
        """
        self.title: str = "none"
        self.old: typing.Tuple[int, ...] = (1,)
        self.category = Category()
        self._finalize_base_config()


def test_values_and_names():
    config = Config()
    config.category.inner.width = [1]
    config.title = "some"
    assert (config.category.inner.width, config.title, Config().title) == ([1], "some", "none")
    assert config.category.inner._get_full_name("depth") == "category.inner.depth"
    copied = copy.deepcopy(config)
    copied.category.inner.width.append(2)
    assert config.category.inner.width == [1]
    written = {}
    config._to_protobuf(written)
    assert written == {"inner": 3}


@pytest.mark.parametrize("path, value, error, text", [
    (["title"], 3, TypeError, "Trying to set title to 3, but it must be of type str"),
    (["category", "is_on"], 1, TypeError,
     "Trying to set category.is_on to 1, but it must be of type bool"),
    (["category", "inner", "width"], "x", TypeError,
     r"Trying to set category.inner.width to x, but it must be of type typing.Union\[int, list\]"),
    (["category", "inner"], 3, Exception,
     "category.inner is a category and cannot be assigned to."),
    (["category", "is_of"], True, ValueError,
     "'is_of' is not a valid attribute of this config. Did you mean 'category.is_on'?"),
    (["_hidden"], 1, ValueError, "'_hidden' is not a valid attribute of this config."),
])
def test_refused(path, value, error, text):
    owner = Config()
    for name in path[:-1]:
        owner = getattr(owner, name)
    with pytest.raises(error, match=text):
        setattr(owner, path[-1], value)


def test_dicts_and_json(caplog):
    config = Config()
    config.category.inner.width = [1, 2]
    values = {"title": "none", "old": (1,), "category.inner.depth": 3,
              "category.inner.width": [1, 2], "category.is_on": False}
    assert config.to_dict() == values
    assert config.category.to_dict()["inner.width"] == [1, 2]
    other = Config()
    other.from_dict(values)
    other.from_dict({"category": {"is_on": True, "inner": {"depth": 5}}})
    assert other.to_dict() == {**values, "category.is_on": True, "category.inner.depth": 5}
    third = Config()
    third.from_json(other.to_json())
    assert third.to_dict() == other.to_dict() and third.old == (1,)
    assert caplog.text.count("has been deprecated") == 5  # width of all three, depth of two
    for wrong, error in (({"titel": "a"}, ValueError), ({"title.more": 1}, ValueError),
                         ({"category.inner.depth": "3"}, TypeError)):
        with pytest.raises(error):
            config.from_dict(wrong)


def test_metadata_and_deprecation(caplog):
    config = Config()
    about = config.get_attribute_metadata("category.inner.width")
    assert (about.name, about.type, about.default, about.__doc__, about._depth) == (
        "category.inner.width", "typing.Union[int, list]", 4, "How wide.\n\n    indented", 3)
    assert about.deprecated_msg == "use another one."  # of the category that it is in
    category = config.get_attribute_metadata("category")
    assert (category.type, category.deprecated, category.__doc__) == (
        None, False, "No description provided.")
    assert config.category.get_attribute_metadata("is_on").name == "category.is_on"
    for name, of in (("category.inne", "inne"), ("nothing.is_on", "nothing")):
        with pytest.raises(ValueError, match=f"metadata for '{name}': '{of}' is not"):
            config.get_attribute_metadata(name)
    config.old = (2, 3)
    config.category.inner.depth = 5
    assert "old has been deprecated: no longer read." in caplog.text
    assert "category.inner.depth has been deprecated: use another one." in caplog.text
    with pytest.raises(ValueError, match="has no attribute 'none'"):
        ipu_config.deprecate_config_attribute("none", "gone")(Config)


def test_documentation():
    text = Config().__doc__
    assert text.startswith("A config.") and Config().__doc__ == text
    for lines in (["      .. _title:", "      .. py:attribute:: title", "         :type: str",
                   "         :value: none", "      ", "         What it is called"],
                  ["         .. py:attribute:: category.inner", "         ",
                   "            .. note::", "               DEPRECATED: use another one.",
                   "            The inner one"]):
        assert text.count("\n".join(lines)) == 1, text


def test_process_index_is_in_range():
    config = ipu_config.IPUConfig()
    distribution = config.experimental.multi_replica_distribution
    distribution.process_count, distribution.process_index = 2, 2
    with pytest.raises(ValueError, match="They are 2 and 2"):
        config._create_protobuf()
