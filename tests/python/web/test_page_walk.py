"""A walk through every view: each table there is one that page_wants knows, with its numbers."""

import functools
import itertools

import pytest

import five_programs
import walking
from analyser import VIEWS, tremula


@pytest.mark.parametrize("name", ["run", "pipeline"] + [
    pytest.param(one, marks=pytest.mark.long) for one in ("plain", "large")])
def test_every_table_and_figure_of_every_view_is_right(new_page, html, profiles, name):
    page = new_page().open(html(name))
    walking.compare_numbers(page, profiles[name])
    assert not page.faults


@pytest.mark.parametrize("names", [
    ("plain", "changed"), pytest.param(("renamed", "plain"), marks=pytest.mark.long),
    pytest.param(("run", "pipeline"), marks=pytest.mark.long)])
def test_every_table_of_two_reports_is_right(new_page, html, profiles, names):
    page = new_page().open(html(*names))
    walking.compare_two(page, [profiles[name] for name in names])
    assert not page.faults


# ---- Networks of a user's size ------------------------------------------------------------------

NAMES = list(five_programs.PROGRAMS)


@pytest.fixture(scope="module")
def networks(tmp_path_factory):
    """networks(name): the profile of one of the five programs, each of which is run once."""
    return functools.cache(lambda name: five_programs.make(name, tmp_path_factory.mktemp(name)))


@pytest.fixture(scope="module", params=NAMES)
def network(request, networks, tmp_path_factory):
    """The profile of one of the five programs, and the address of its page."""
    profile, page = networks(request.param), tmp_path_factory.mktemp("page") / "page.html"
    tremula("report", profile, "--html", page)
    return profile, page.as_uri()


@pytest.mark.long
def test_every_table_of_networks_of_a_users_size_is_right(new_page, network):
    profile, url = network
    page = new_page().open(url)
    walking.compare_numbers(page, profile)
    assert not page.faults


@pytest.mark.long
def test_keys_and_readers_of_networks(new_page, network):
    """Keys reach every control, and a reader's tree is in order, in both themes and with large
    text."""
    for scheme in ("light", "dark"):
        page = new_page(color_scheme=scheme, bypass_csp=True).open(network[1])
        links = [f"v={view}&tiles=0&step=9" for view in [*VIEWS, "trace&mode=sandwich"]]
        walking.find_nothing_serious(page, links, {})
        assert not page.faults
    for view in VIEWS:
        page.go(f"v={view}")
        walking.reach_every_control(page)
    page.page.set_viewport_size({"width": 640, "height": 360})
    for view in VIEWS:
        page.go(f"v={view}")
        wide = page.page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wide <= 1, view


@pytest.mark.long
@pytest.mark.parametrize("first, second", [
    ("inference", "memory"), *itertools.pairwise([*NAMES[1:], NAMES[0]])])
def test_two_networks(new_page, networks, tmp_path, first, second):
    profiles = [networks(first), networks(second)]
    tremula("report", *profiles, "--html", tmp_path / "page.html")
    page = new_page().open((tmp_path / "page.html").as_uri())
    walking.compare_two(page, profiles)
    assert not page.faults
