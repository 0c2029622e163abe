import pytest

from tests.server.browser.conftest import *
from tests.server.browser.test_take_away import *


@pytest.mark.parametrize("dark", [False, True])
def test_shots(rendered_visits, dark):
    page = rendered_visits.open("/?q=star", Look(still=True, dark=dark, size=(1024, 800)))
    settled(page)
    page.locator("details.others > summary").click()
    for name in ("star.mp4", "heart.mp4"):
        page.get_by_label(f"Select {name}").first.check(force=True)
    page.screenshot(path=f"/tmp/shots/bar{dark}.png")
    page.get_by_role("button", name="Take away star.mp4").first.click()
    for w in (390, 1680):
        page.set_viewport_size({"width": w, "height": 800})
        page.screenshot(path=f"/tmp/shots/dialog{w}{dark}.png")
    page.keyboard.press("Escape")
    page.locator(".card h3 a").first.press("Enter")
    page.wait_for_timeout(1500)
    page.screenshot(path=f"/tmp/shots/player{dark}.png")
