"""`evenreel evaluate --moments`: figures beside two guesses, JSON, a row a query, and options that do not belong."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from evenreel.cli.app import app
from evenreel.corpus import make_corpus, save_corpus


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two test clips of 10 s with a query each, 120 training clips whose moments are late."""
    folder = tmp_path_factory.mktemp("moments")
    names = ["a", "b", *(f"t{n}" for n in range(120))]
    splits = ["test", "test", *["train"] * 120]
    windows = [[[0.0, 5.0]], [[8.0, 10.0]], *([[7 + n / 200, 10.0]] for n in range(120))]
    clips = pl.DataFrame({"clip_id": names, "start_s": 0.0, "end_s": 10.0, "split": splits})
    captions = pl.DataFrame({"caption_id": names, "clip_id": names, "text": names, "windows": windows})
    save_corpus(make_corpus(clips, captions), folder / "corpus")
    for name, first in (("good", [[0, 5], [8, 10]]), ("poor", [[0, 1], [0, 1]])):
        lines = [{"qid": one, "pred_relevant_windows": [window]} for one, window in zip("ab", first, strict=True)]
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return folder


def evaluate(place: Path, name: str | Path, *words: str, corpus: Path | None = None) -> Result:
    file = name if isinstance(name, Path) else place / f"{name}.jsonl"
    command = ["evaluate", "--moments", str(file), "--corpus", str(corpus or place / "corpus")]
    return CliRunner().invoke(app, [*command, *words])


def test_beside_a_system_stand_two_guesses(place: Path) -> None:
    done = evaluate(place, "good", "--split", "test", "--against", str(place / "poor.jsonl"), "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    names = [one["name"] for one in found["systems"]]
    assert names == ["good.jsonl", "poor.jsonl", "the whole clip", "the best position of the training annotations"]
    figures = [one["summary"]["mIoU"]["value"] for one in found["systems"]]
    assert figures[:3] == pytest.approx([100, 10, 35])  # .2 and 0 of the poor one, .5 and .2 of whole clips
    assert figures[3] == pytest.approx(100 * (2 / 2.5) / 2, abs=0.1)  # [7.5, 10] is nearest to most
    gained = {one["metric"]: one["value"] for one in found["differences"]}
    assert gained["mIoU"] == pytest.approx(-90)


def test_without_training_annotations_the_position_is_fixed_and_said(place: Path) -> None:
    done = evaluate(place, "good", "--partial").output
    assert "the first half of the clip" in done.replace("\n", " ") and "120 queries have no prediction" in done


def test_beside_a_system_that_searched_all_clips_stands_what_naming_clips_finds(place: Path, tmp_path: Path) -> None:
    windows = {"a": [["b", 0, 5], ["a", 0, 5]], "b": [["b", 8, 10]]}
    lines = [{"qid": name, "pred_relevant_windows": rows} for name, rows in windows.items()]
    (tmp_path / "all.jsonl").write_text("\n".join(map(json.dumps, lines)))
    found = json.loads(evaluate(place, tmp_path / "all.jsonl", "--split", "test", "--json").stdout)["systems"]
    assert [one["name"] for one in found] == ["all.jsonl", "all.jsonl, the whole of its clips"]
    figures = [[one["summary"][word]["value"] for word in ("R1@0.5", "R10@0.5")] for one in found]
    assert figures == [[50, 100], [0, 50]]
    assert found[0]["searched"] == "all clips"


def test_a_row_a_query(place: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    done = evaluate(place, "good", "--split", "test", "-m", "R1@0.5", "-m", "mIoU", "--per-query", str(rows))
    assert done.exit_code == 0, done.output
    table = pl.read_csv(rows)
    assert table.columns == ["system", "query_id", "clip_id", "R1@0.5", "mIoU"] and table.height == 3 * 2


def test_what_is_read_is_not_written_over_and_no_row_is_a_formula(place: Path, tmp_path: Path) -> None:
    good = place / "good.jsonl"
    before = good.read_bytes()
    for path in (good, tmp_path / "rows.txt"):
        assert evaluate(place, "good", "--split", "test", "--per-query", str(path)).exit_code != 0
    assert good.read_bytes() == before
    (tmp_path / "=1+1.jsonl").write_bytes(before)
    words = ("--split", "test", "--per-query", str(tmp_path / "rows.csv"))
    done = evaluate(place, tmp_path / "=1+1.jsonl", *words)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "rows.csv").read_text().splitlines()[1].startswith("'=1+1.jsonl,")


def test_wrong_training_annotations_are_no_reason_for_a_fixed_position(place: Path, tmp_path: Path) -> None:
    clips = pl.DataFrame({"clip_id": ["a", "t"], "split": ["test", "train"]})
    columns = {key: ["a", "t"] for key in ("caption_id", "clip_id", "text")}
    columns["windows"] = [[[0.0, 5.0]], [[9.0, 7.0]]]
    save_corpus(make_corpus(clips, pl.DataFrame(columns)), tmp_path / "corpus")
    (tmp_path / "p.jsonl").write_text(json.dumps({"qid": "a", "pred_relevant_windows": [[0, 5]]}))
    refused = evaluate(place, tmp_path / "p.jsonl", "--split", "test", corpus=tmp_path / "corpus").exception
    assert "'t' has a window from 9 to 7 s" in str(refused)


@pytest.mark.parametrize("words", [("--rescore", "dsl"), ("--html", "x.html"), ("--ties", "optimistic")])
def test_options_of_rankings_are_refused(place: Path, words: tuple[str, str]) -> None:
    done = evaluate(place, "good", *words)
    assert done.exit_code != 0 and "--moments measures windows in time" in str(done.exception)


def test_a_corpus_without_windows_and_a_word_that_is_no_metric_get_a_sentence(place: Path, tmp_path: Path) -> None:
    clips, captions = pl.DataFrame({"clip_id": ["a"]}), {"caption_id": ["a"], "clip_id": ["a"], "text": ["a"]}
    save_corpus(make_corpus(clips, pl.DataFrame(captions)), tmp_path / "corpus")
    assert "captions' column 'windows'" in str(evaluate(place, "good", corpus=tmp_path / "corpus").exception)
    assert "is no metric of moments" in str(evaluate(place, "good", "-m", "R@1").exception)
