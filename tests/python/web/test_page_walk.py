"""A walk through every view: each table there is one that page_wants knows, with its numbers."""

import pytest

import five_programs
import walking
from analyser import VIEWS, tremula


@pytest.mark.parametrize("name", ["plain", "large", "run", "pipeline"])
def test_every_table_and_figure(new_page, html, profiles, name):
    page = new_page().open(html(name))
    walking.compare_numbers(page, profiles[name])
    assert not page.faults


# ---- Networks of a user's size ------------------------------------------------------------------

@pytest.fixture(scope="module", params=list(five_programs.PROGRAMS))
def network(request, tmp_path_factory):
    """The profile of one of the five programs, and the address of its page."""
    folder = tmp_path_factory.mktemp(request.param)
    profile = five_programs.make(request.param, folder)
    tremula("report", profile, "--html", folder / "page.html")
    return profile, (folder / "page.html").as_uri()


@pytest.mark.long
def test_numbers_of_networks(new_page, network):
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
