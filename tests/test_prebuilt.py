"""A copy of a prebuilt library is what a run over the same files makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenreel.config import IndexSettings
from evenreel.library import index_folders, verify
from tests import prebuilt
from tests.library.damage import QUICK, without_models
from tests.library.state import state
from tests.library.videos import write_folder
from tests.library.words_only import WORDS_ONLY


@pytest.mark.parametrize("settings", [WORDS_ONLY, QUICK], ids=["words only", "seen"])
def test_a_copy_is_what_a_run_makes(tmp_path: Path, settings: IndexSettings) -> None:
    with without_models():
        for name in ("first", "it's second"):
            videos, library = tmp_path / name / "videos", tmp_path / name / "library"
            write_folder(videos, 2)
            (videos / "broken.mp4").write_text("no video")
            (videos / "metadata.csv").write_text("path,caption\nclip_00.mp4,a red tram\n")
            report = prebuilt.library(videos, library, settings)
            assert (report.indexed, len(report.set_aside)) == (2, 1)
            found = state(library)
            assert index_folders([videos], library, settings).did_nothing
            assert verify(library) == []
            index_folders([videos], tmp_path / name / "made", settings)
            assert found == state(tmp_path / name / "made")
