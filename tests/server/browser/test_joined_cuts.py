"""Cuts whose ends alone are encoded, as Chromium plays them."""

from __future__ import annotations

import base64
from fractions import Fraction
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.handover.test_cuts import cut
from tests.media_files import Film, gop, numbered_picture, write_film

FPS, SIZE, WANTED = Fraction(25), (480, 320), range(30, 151)
FILMS = {
    "pyramid": {
        "preset": "medium",
        "x264-params": "keyint=48:min-keyint=48:scenecut=0:bframes=3:b-pyramid=normal:ref=4",
    },
    "baseline": {**gop(48), "profile": "baseline"},
}


@pytest.mark.parametrize("name", FILMS)
def test_a_joined_cut_plays_and_is_sought_without_a_wrong_picture(browser: Browser, tmp_path: Path, name: str) -> None:
    pictures = [numbered_picture(number, *SIZE) for number in range(200)]
    film = Film(range(200), size=SIZE, time_base=1 / FPS, options=FILMS[name])
    made = cut(write_film(tmp_path / "a.mp4", film, pictures), WANTED.start / FPS, WANTED.stop / FPS, exact=True)
    begin, end = made.said["copied"]
    assert (begin, 145 < end <= 151) == (48, True)
    page = browser.new_page()
    data = base64.b64encode(made.path.read_bytes()).decode()
    found = page.evaluate(Path(__file__).with_name("play_frames.js").read_text(), [data, *SIZE, float(FPS)])
    page.close()
    assert found["duration"] == pytest.approx(len(WANTED) / float(FPS), abs=0.001)
    assert len(found["shown"]) > len(WANTED) / 2  # a slow machine shows not all of them
    for way in ("shown", "sought"):
        assert [number for _, number in found[way]] == [WANTED[place] for place, _ in found[way]]
    assert [place for place, _ in found["sought"]] == list(reversed(range(len(WANTED))))
