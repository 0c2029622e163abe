"""`evenreel evaluate` as a person types it: figures, comparisons, corrections, windows in time and exit status."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml
from huggingface_hub import ModelCard, parse_eval_result_entries
from typer.testing import CliRunner, Result

from evenreel.cli import progress
from evenreel.cli.app import app
from evenreel.cli.evaluate.command import MeasureChoice
from evenreel.cli.options import documented
from evenreel.corpus import make_corpus, save_corpus
from evenreel.errors import CorpusError, EvenreelError, ScoresError, UsageError
from evenreel.evaluation import DEFAULT_METRICS, parse_metrics, save_scores
from evenreel.evaluation.metrics import RescoringSettings
from evenreel.evaluation.rescoring import RESCORINGS, rescore
from evenreel.evaluation.saving import write_run
from evenreel.types import ScoreNotes, Scores
from tests.cli.test_library_commands import here, printed_json

COUNT = 30
CLIPS = [f"v{i}" for i in range(COUNT)]
CAPTIONS = [f"c{i}" for i in range(COUNT)]

DOCS = Path(__file__).resolve().parents[2] / "docs"
DEFAULT_WORDS = [str(metric) for metric in DEFAULT_METRICS]


def values(seed: int, signal: float) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(size=(COUNT, COUNT)) + signal * np.eye(COUNT)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus with two splits, and the scores of two systems on the larger."""
    place = tmp_path_factory.mktemp("evaluate")
    clips = pl.DataFrame({"clip_id": [*CLIPS, "other"], "split": ["test"] * COUNT + ["train"]})
    captions = {
        "caption_id": [*CAPTIONS, "c-other"],
        "clip_id": [*CLIPS, "other"],
        "text": [f"[red]text {i}[/red]" for i in range(COUNT + 1)],
    }
    save_corpus(make_corpus(clips, pl.DataFrame(captions)), place / "corpus")
    old, new = (Scores(values(0, signal), CAPTIONS, CLIPS) for signal in (1.0, 3.0))
    save_scores(old, place / "old.npz")
    save_scores(new, place / "new.npz")
    np.save(place / "old.npy", old.values)
    write_run(old, place / "short.run", depth=3)
    np.savez(place / "bank.npz", values=values(5, 0.0)[:, ::-1].repeat(5, axis=0), video_ids=CLIPS[::-1])
    (place / "bad.npz").write_bytes(b"not a zip")
    return place


def typed(place: Path, *arguments: str | Path) -> list[str | Path]:
    names = [place / one if isinstance(one, str) and (place / one).is_file() else one for one in arguments]
    return ["evaluate", *names, "--corpus", place / "corpus", "--split", "test"]


def evaluate(place: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return here(*typed(place, *arguments))


def figures(place: Path, *arguments: str | Path) -> Any:
    return printed_json(evaluate(place, *arguments, "--json"))


def ranks(seed_values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    own = np.diag(seed_values)
    return 1 + (seed_values > own[:, None]).sum(axis=1)


def test_the_table_has_each_metric_with_its_interval_in_both_directions(place: Path) -> None:
    done = here(*typed(place, "old.npz"))
    assert (done.returncode, done.stderr) == (0, "")
    recall = 100 * np.mean(ranks(values(0, 1.0)) == 1)
    assert f"{recall:.2f}% of 30 captions find their answer first among 30" in done.stdout
    shown = {line.split()[0]: line.split() for line in done.stdout.splitlines() if line.strip()}
    assert all(shown[word].count("to") == 2 for word in DEFAULT_WORDS)
    assert (shown["R@1"][1], shown["MeanR"][1]) == (f"{recall:.2f}", f"{ranks(values(0, 1.0)).mean():.1f}")


def test_json_has_the_same_figures(place: Path) -> None:
    found = figures(place, "old.npz", "-m", "R@3", "-m", "MedR")
    system = found["systems"][0]
    assert (system["name"], system["metrics"], found["comparison"]) == ("old.npz", ["R@3", "MedR"], None)
    (notice,) = (without_ids := figures(place, "old.npy", "-m", "R@3", "-m", "MedR")["systems"][0])["notices"]
    assert "names no ids" in notice and without_ids["directions"] == system["directions"]
    for direction, turned in (("t2v", values(0, 1.0)), ("v2t", values(0, 1.0).T)):
        summary = system["directions"][direction]["summary"]
        assert summary["R@3"]["value"] == pytest.approx(100 * np.mean(ranks(turned) <= 3))
        assert summary["MedR"]["value"] == np.median(ranks(turned))
        assert summary["R@3"]["low"] <= summary["R@3"]["value"] <= summary["R@3"]["high"]


def test_against_another_system(place: Path) -> None:
    done = evaluate(place, "old.npz", "--against", "new.npz")
    assert done.returncode == 0, done.stderr
    assert "Differences from old.npz, query by query" in done.stdout
    assert "new.npz does better than the baseline in R@1 of t2v: +" in done.stdout
    assert not re.search("^ R@1 .*new.npz", done.stdout, re.MULTILINE)  # of one alone the sentence says which
    assert "…" not in done.stdout
    alike = [figures(place, "old.npz", *words) for words in (["new.npz"], ["--against", "new.npz"])]
    assert all(alike[0][part] == alike[1][part] for part in ("systems", "comparison"))
    rows = alike[0]["comparison"]["rows"]
    assert len(rows) == 2 * len(DEFAULT_WORDS)
    first = rows[0]
    old, new = ranks(values(0, 1.0)), ranks(values(0, 3.0))
    assert first["difference"]["value"] == pytest.approx(100 * (np.mean(new == 1) - np.mean(old == 1)))
    assert first["wins"] == int(((new == 1) & (old != 1)).sum())
    assert first["p_randomisation"] < 0.05


def test_a_matrix_alone_in_an_empty_folder(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a corpus the diagonal is the truth, which is said; two matrices are compared."""
    monkeypatch.chdir(tmp_path)
    np.save("scores.npy", values(0, 1.0))
    np.savetxt("new.csv", values(0, 3.0), delimiter=",")
    wanted = figures(place, "old.npz", "--against", "new.npz")
    done = here("evaluate", "scores.npy")
    assert done.returncode == 0, done.stderr
    assert "30 queries × 30 clips; no corpus given, so clip i is taken as the answer of query i." in done.stdout
    found = printed_json(here("evaluate", "scores.npy", "--against", "new.csv", "--json"))
    for one, known in zip(found["systems"], wanted["systems"], strict=True):
        assert {side: one["directions"][side]["summary"] for side in ("t2v", "v2t")} == {
            side: known["directions"][side]["summary"] for side in ("t2v", "v2t")
        }
    assert [row["difference"] for row in found["comparison"]["rows"]] == [
        row["difference"] for row in wanted["comparison"]["rows"]
    ]
    np.save("tall.npy", values(0, 1.0).repeat(2, axis=0))
    np.savez("short.npz", values(0, 1.0)[:9, :9])
    for words, sentence in (
        ("tall.npy", "tall.npy is 60 × 30, and without a corpus the truth is the diagonal of a square matrix"),
        ("scores.npy --against short.npz", "short.npz is 9 × 9, and the first matrix is 30 × 30; both must be of the"),
        ("scores.npy --split test", "--split test names a part of a corpus; give --corpus FOLDER too"),
        ("scores.npy --moments", "--moments needs the true windows of a corpus; name it with --corpus FOLDER."),
        (f"{place / 'short.run'}", "lists pairs and says not what answers what; give --qrels FILE or --corpus FOLDER"),
    ):
        with pytest.raises(EvenreelError, match=re.escape(sentence)):
            app(["evaluate", *words.split()], standalone_mode=False)
    done = here("evaluate", "tall.npy", "--captions-per-clip", "2", "--html", "page.html", "--save-qrels", "q.txt")
    assert done.returncode == 0, done.stderr
    assert "2 rows in turn are taken as the captions of a clip" in (tmp_path / "page.html").read_text()
    assert "The page with figures: page.html" in done.stdout
    assert (tmp_path / "q.txt").read_text().splitlines()[2] == "2 0 1 1"


def test_the_three_lines_that_stand_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.compile(r"^```(console|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    pages = [
        blocks.findall((DOCS / f"{name}.md").read_text("utf-8")) for name in ("tutorials/fair", "measure", "index")
    ]
    made, lines = pages[0][:2]
    assert pages[1][0] == pages[2][0] == lines
    exec(made[1], {})
    for line in lines[1].splitlines():
        done = here(*line.partition("#")[0].split()[1:])
        assert (done.returncode, done.stderr) == (0, "")
        assert "no corpus given" in done.stdout


def test_runs_against_judgements_have_one_gallery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lists = {"old": "a x 2\na z 3\nb y 1", "new": "a x 2\nb w 3\nb y 1\nb v .5"}
    for name, pairs in lists.items():
        lines = [f"{query} Q0 {item} 1 {score} t\n" for query, item, score in map(str.split, pairs.splitlines())]
        Path(f"{name}.run").write_text("".join(lines))
    Path("qrels.tsv").write_text("query-id\tcorpus-id\tscore\na\tx\t1\nb\ty\t1\nc\tv\t1\n")
    words = ("old.run", "--against", "new.run", "--qrels", "qrels.tsv", "-m", "R@1", "--resamples", "9", "--json")
    found = printed_json(here("evaluate", *words))
    sides = [one["directions"]["t2v"] for one in found["systems"]]
    assert [(one["queries"], one["gallery_size"], one["summary"]["R@1"]["value"]) for one in sides] == [
        (3, 5, pytest.approx(100 / 3)) for _ in lists
    ]
    assert found["comparison"]["rows"][0]["difference"]["value"] == 0
    assert "qrels.tsv" in str(found["provenance"]["inputs"])
    np.save("numbers.npy", np.eye(3))
    with pytest.raises(EvenreelError, match="nothing that has scores: their first ids are '0' and '0'"):
        app(["evaluate", "old.run", "--against", "numbers.npy", "--qrels", "qrels.tsv"], standalone_mode=False)


def test_systems_side_by_side_in_every_form(place: Path, tmp_path: Path) -> None:
    """The figures of each system alone, what is significantly the best marked, in five places."""
    shutil.copy(place / "old.npz", tmp_path / "a_b|50%.npz")
    files = {name: tmp_path / f"t.{name}" for name in ("latex", "markdown", "csv", "html")}
    words = [word for name, path in files.items() for word in (f"--{name}", path)]
    systems = ["old.npz", "--against", "new.npz", "--against", tmp_path / "a_b|50%.npz"]
    done = evaluate(place, *systems, "-m", "R@1", "-m", "MedR", "-m", "mAP", "--mean", *words)
    assert done.returncode == 0, done.stderr
    alone = figures(place, "new.npz", "-m", "R@1", "-m", "MedR", "-m", "mAP")["systems"][0]["directions"]
    ahead, back = (alone[direction]["summary"] for direction in ("t2v", "v2t"))
    table = pl.read_csv(files["csv"])
    new = table.filter(system="new.npz")
    assert new["metric"].to_list() == ["R@1", "MedR", "mAP"] * 2 + ["R@1", "mAP"]
    assert new["value"].to_list()[:3] == [ahead[word]["value"] for word in ("R@1", "MedR", "mAP")]
    mean = (ahead["R@1"]["value"] + back["R@1"]["value"]) / 2
    assert new.row(6, named=True)["value"] == pytest.approx(mean, abs=1e-9)
    assert new["best"].to_list() == [True] * 6 + [False] * 2  # means of both directions are not tested
    assert not table.filter(system="old.npz")["best"].any()
    shown = f"{ahead['R@1']['value']:.2f}", f"{ahead['R@1']['low']:.2f}, {ahead['R@1']['high']:.2f}"
    assert f"| **{shown[0]}** [{shown[1]}] |" in files["markdown"].read_text()
    assert rf"\textbf{{{shown[0]}}} {{\scriptsize [{shown[1]}]}}" in files["latex"].read_text()
    assert f"{shown[0]}* [{shown[1]}]" in files["html"].read_text()
    assert f"{shown[0]} [{shown[1]}]" in done.stdout
    assert "\n" + r"{}a\_b|50\%.npz &" in files["latex"].read_text()
    rows = [line for line in files["markdown"].read_text().splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {10}
    assert rows[4].startswith(r"| a\_b\|50%.npz |")


def test_figures_for_the_hub_are_read_back_by_its_library(place: Path, tmp_path: Path) -> None:
    results, card = tmp_path / "r.yaml", tmp_path / "card.md"
    asked = ["-m", "R@1", "-m", "nDCG@5", "--dataset-id", "someone/videos"]
    done = evaluate(place, "old.npz", *asked, "--eval-results", results, "--model-card", card)
    assert done.returncode == 0, done.stderr
    directions = figures(place, "old.npz", *asked[:4])["systems"][0]["directions"]
    expected = {(way, word): one["value"] for way in directions for word, one in directions[way]["summary"].items()}
    entries = parse_eval_result_entries(yaml.safe_load(results.read_text()))
    assert {tuple(one.task_id.split("-", 1)): one.value for one in entries} == expected
    assert {one.dataset_id for one in entries} == {"someone/videos"}
    assert all("30 queries among 30; protocol" in str(one.notes) for one in entries)
    read = ModelCard(card.read_text())
    ways = {"text-to-video-retrieval": "t2v", "video-to-text-retrieval": "v2t"}
    assert read.data.model_name == "old"
    assert read.data.eval_results is not None
    assert {(ways[one.task_type], one.metric_type): one.metric_value for one in read.data.eval_results} == expected
    assert {(one.dataset_type, one.dataset_split) for one in read.data.eval_results} == {("someone/videos", "test")}
    assert "| old | " in read.text


def test_what_makes_a_comparison_unfair_is_said_beside_it(place: Path, tmp_path: Path) -> None:
    save_scores(Scores(values(1, 2.0), CAPTIONS, CLIPS, ScoreNotes(("other queries",))), tmp_path / "helped.npz")
    out = ("--against", tmp_path / "helped.npz", "--html", tmp_path / "page.html")
    done = evaluate(place, "old.npz", *out)
    (notice,) = figures(place, "old.npz", *out)["comparison"]["notices"]
    assert notice in done.stdout.partition("Differences from old.npz")[2]
    assert notice in (tmp_path / "page.html").read_text()


def test_a_short_run_serves_its_own_direction_unless_asked(place: Path) -> None:
    system = figures(place, "short.run", "-m", "R@1")["systems"][0]
    assert list(system["directions"]) == ["t2v"]
    assert any("list 10.0% of all pairs" in notice for notice in system["notices"])
    assert any("v2t is left out" in notice for notice in system["notices"])
    expected = 100 * np.mean(ranks(values(0, 1.0)) == 1)
    assert system["directions"]["t2v"]["summary"]["R@1"]["value"] == pytest.approx(expected)
    asked = figures(place, "short.run", "-m", "R@1", "--direction", "v2t")["systems"][0]
    assert list(asked["directions"]) == ["v2t"]


def test_corrected_scores_say_so(place: Path) -> None:
    done = evaluate(place, "old.npz", "--rescore", "dsl")
    assert done.returncode == 0, done.stderr
    assert "These scores use other queries: they are not to be compared" in done.stdout
    assert "The scores are corrected by dual softmax (scale 100)." in done.stdout
    s = values(0, 1.0)
    corrected = s * np.exp(100 * s) / np.exp(100 * s).sum(axis=0)
    system = figures(place, "old.npz", "--rescore", "dsl")["systems"][0]
    assert system["uses"] == ["other queries"]
    assert system["directions"]["t2v"]["summary"]["MeanR"]["value"] == pytest.approx(ranks(corrected).mean())
    turned = s.T * np.exp(100 * s.T) / np.exp(100 * s.T).sum(axis=0)
    assert system["directions"]["v2t"]["summary"]["MeanR"]["value"] == pytest.approx(ranks(turned).mean())


@pytest.mark.parametrize(
    ("word", "direction", "uses"),
    [
        ("csls", "t2v", ["other queries"]),
        ("dsl", "v2t", ["other queries", "a correction for videos' searches alone"]),
        ("qb-norm", "t2v", ["a bank of 150 captions", "a correction for captions' searches alone"]),
    ],
)
def test_corrected_scores_are_kept_with_what_they_use(
    place: Path, tmp_path: Path, word: str, direction: str, uses: list[str]
) -> None:
    out, how = tmp_path / "new" / "corrected.npz", ["--direction", direction, "--rescore", word]
    bank = ["--bank", place / "bank.npz"] if word == "qb-norm" else []
    before = figures(place, "old.npz", *how, *bank, "--save-scores", out)["systems"][0]
    after = figures(place, out, "--direction", direction)["systems"][0]
    assert after["directions"] == before["directions"]
    assert after["uses"] == uses
    (notice,) = figures(place, "old.npz", "--against", out)["comparison"]["notices"]
    assert all(use in notice for use in uses)
    audited = here("audit", "hubness", "--scores", out, "--corpus", place / "corpus", "--split", "test", "--json")
    assert printed_json(audited)["audits"][0]["notices"][0].startswith(f"These scores use {' and '.join(uses)}:")


def test_hazard_188_scores_that_are_no_cosines_are_told(place: Path) -> None:
    told = "The scale 100 of dual softmax is made for cosines, but these scores are no cosines"
    assert told in evaluate(place, "old.npz", "--rescore", "dsl").stdout
    assert told not in evaluate(place, "old.npz", "--rescore", "dsl", "--scale", "1").stdout


def saved(path: Path, table: np.ndarray[Any, Any], captions: list[str], clips: list[str]) -> Path:
    np.savez(path, values=table, caption_ids=captions, video_ids=clips)
    return path


def test_two_banks_correct_both_directions(place: Path, tmp_path: Path) -> None:
    """Rows and columns of each file are mixed: what belongs together goes by its ids."""
    random, few, many = np.random.default_rng(3), [f"t{i}" for i in range(40)], [f"w{i}" for i in range(50)]
    bank, videos, pairs = random.normal(size=(40, COUNT)), random.normal(size=(COUNT, 50)), random.normal(size=(40, 50))
    mixed, mixed_too = random.permutation(40), random.permutation(50)
    banks = (
        "--bank", saved(tmp_path / "b.npz", bank, few, CLIPS),
        "--video-bank", saved(tmp_path / "v.npz", videos[::-1], CAPTIONS[::-1], many),
        "--bank-pairs", saved(
            tmp_path / "p.npz", pairs[mixed][:, mixed_too], [few[i] for i in mixed], [many[i] for i in mixed_too]
        ),
    )  # fmt: skip
    system = figures(place, "old.npz", "--rescore", "dbsn", *banks, "--temperature", "0.5", "-m", "MeanR")["systems"][0]
    s, settings = Scores(values(0, 1.0), CAPTIONS, CLIPS), RescoringSettings(temperature=0.5)
    t2v = rescore("dbsn", s, "t2v", bank, pairs, settings).values
    v2t = rescore("dbsn", s, "v2t", videos, pairs, settings).values
    for direction, corrected in (("t2v", t2v), ("v2t", v2t.T)):
        found = system["directions"][direction]["summary"]["MeanR"]["value"]
        assert found == pytest.approx(ranks(corrected).mean())
    (notice,) = system["notices"]
    assert "dual bank Sinkhorn normalisation (temperature 0.5, iterations 10)" in notice
    alone = figures(place, "old.npz", "--rescore", "nnn", "--top", "9", *banks[2:4])["systems"][0]
    assert list(alone["directions"]) == ["v2t"]
    assert "NNN is given a bank of clips, so t2v is left out." in alone["notices"]


def test_hazard_186_a_bank_with_the_test_s_own_captions_or_clips_is_told(place: Path, tmp_path: Path) -> None:
    random, others = np.random.default_rng(3), [f"t{i}" for i in range(39)]
    bank = saved(tmp_path / "b.npz", random.normal(size=(40, COUNT)), [*others, CAPTIONS[4]], CLIPS)
    videos = saved(tmp_path / "v.npz", random.normal(size=(COUNT, 40)), CAPTIONS, [*others, CLIPS[7]])
    pairs = saved(tmp_path / "p.npz", random.normal(size=(40, 40)), [*others, CAPTIONS[4]], [*others, CLIPS[7]])
    banks = ("--bank", bank, "--video-bank", videos, "--bank-pairs", pairs)
    told = "\n".join(figures(place, "old.npz", "--rescore", "dbsn", *banks)["systems"][0]["notices"])
    for what, first in (("captions", CAPTIONS[4]), ("clips", CLIPS[7])):
        assert f"Of 40 {what} of the bank 1 are {what} that are evaluated, the first {first!r}" in told
        assert f"{pairs} has scores of 1 {what} of the gallery, {first!r} for example" in told


def test_hazard_187_banks_that_do_not_belong_together_are_refused(place: Path, tmp_path: Path) -> None:
    random, few = np.random.default_rng(3), [f"t{i}" for i in range(40)]
    bank = saved(tmp_path / "b.npz", random.normal(size=(40, COUNT)), few, CLIPS)
    np.save(tmp_path / "p.npy", random.normal(size=(39, 8)))
    named = saved(tmp_path / "p.npz", random.normal(size=(39, 8)), few[:-1], few[:8])
    for pairs, sentence in ((named, "no scores for the caption 't39'"), (tmp_path / "p.npy", "they need 40 rows")):
        words = ["--rescore", "dbsn", "--bank", bank, "--bank-pairs", pairs]
        with pytest.raises(ScoresError, match=sentence):
            app([*map(str, typed(place, "old.npz", *words))], standalone_mode=False)


def test_what_is_wrong_is_said_in_a_sentence(place: Path) -> None:
    for arguments, error, sentence in (
        ("bad.npz", ScoresError, "is no zip file"),
        ("old.npz -m R@0", UsageError, "'R@0' is no metric"),
        ("old.npz --ties mine", UsageError, "'mine' is no rule for ties"),
        ("old.npz --rescore nnn", UsageError, "NNN needs a bank"),
        ("old.npz --rescore dsl --bank bank.npz", UsageError, "dual softmax takes no bank"),
        ("old.npz --bank bank.npz", UsageError, "use --bank with --rescore"),
        ("old.npz --rescore nnn --bank old.npy --direction v2t", UsageError, "a bank of captions"),
        ("old.npz --rescore nnn --bank old.npy", UsageError, "give a bank of at least 128 queries"),
        ("old.npz --rescore nnn --video-bank old.npy --direction t2v", UsageError, "a bank of clips, which serves v2t"),
        ("short.run --rescore nnn --video-bank old.npy", UsageError, "The scores serve t2v alone, and the bank"),
        ("old.npz --rescore dbsn --bank old.npy", UsageError, "needs a second bank"),
        ("old.npz --rescore nnn --bank old.npy --bank-pairs old.npy", UsageError, "NNN uses one bank alone"),
        ("old.npz --rescore csls --top 3", UsageError, "CSLS has no setting 'top'; it has: neighbours"),
        ("old.npz --top 3", UsageError, "--top is a setting of a correction"),
        ("old.npz --rescore dsl --scale 0", UsageError, "The setting scale of the correction is 0"),
        ("old.npz --confidence 95", UsageError, "must be a number between 0 and 1"),
        ("old.npz --against old.npz", UsageError, "is named twice"),
        ("old.npz --split none", CorpusError, "No clip is left"),
        ("old.npz --split train", ScoresError, "its captions are of 'test'; choose that"),
        ("old.npz --against short.run", ScoresError, "another list of directions"),
        ("old.npz --by genre", CorpusError, "have a column 'genre' to group by; there are: clip_id,"),
        ("old.npz --by split --by split", UsageError, "must be a list of words, each once"),
    ):
        words = [str(place / one) if (place / one).is_file() else one for one in arguments.split()]
        split = [] if "--split" in words else ["--split", "test"]
        with pytest.raises(error, match=sentence):
            app(["evaluate", *words, "--corpus", str(place / "corpus"), *split], standalone_mode=False)


def test_what_must_fail_fails_before_anything_is_read(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("old.npz", "new.npz"):
        (tmp_path / name).symlink_to(place / name)
    (tmp_path / "corpus.csv").mkdir()
    for arguments, sentence in (
        ("--html old.npz/page.html", "page.html cannot be written"),
        ("--per-query corpus.csv", "cannot be written (it is a folder)"),
        ("--per-query table.json", "ends neither in .csv nor in .parquet"),
        ("--eval-results r.yaml", "r.yaml says which dataset was measured; name it with --dataset-id"),
        ("--model-card r.md --dataset-id videos", "'videos' is no id of a dataset on the hub"),
        ("--dataset-id a/b", "belongs to --eval-results or --model-card"),
        ("--markdown x.md --latex x.md", "Two of the files to write are one"),
        ("--save-scores x.npz", "--save-scores keeps corrected scores; name the correction with --rescore"),
        ("--rescore csls --save-scores x.npy", "x.npy does not end in .npz"),
        ("--rescore csls --save-scores old.npz", "old.npz is one of the files to read; give what is written another"),
        ("--against new.npz --save-run new.npz", "new.npz is one of the files to read"),
        ("--rescore nnn --bank new.npz --save-run ./new.npz", "new.npz is one of the files to read"),
        ("--against new.npz --resamples 0", "at least one resample"),
        ("--against missing.npz", "There is no file"),
        ("--rescore magic", "'magic' is no re-scoring"),
        ("--relevance taste", "'taste' is no kind of relevance"),
        ("--qrels none.txt", "There is no file none.txt of judgements to read; --save-qrels"),
        ("--qrels new.npz --relevance text", "--qrels says what is relevant, and so does --relevance text; give one"),
        ("--captions-per-clip 2", "The corpus says which captions a clip has; leave --captions-per-clip out."),
    ):
        with pytest.raises(EvenreelError, match=re.escape(sentence)):
            app(["evaluate", "old.npz", *arguments.split(), "--corpus", "no corpus is read"], standalone_mode=False)
        assert sorted(one.name for one in tmp_path.iterdir()) == ["corpus.csv", "new.npz", "old.npz"]


def test_the_table_is_printed_before_a_page_that_fails(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise ScoresError("The disk is full.")

    monkeypatch.setattr("evenreel.report.write_page", fail)
    words = ["evaluate", place / "old.npz", "--corpus", place / "corpus", "--split", "test", "--html", place / "p.html"]
    with pytest.raises(ScoresError, match="disk"):
        app(list(map(str, words)), standalone_mode=False)
    assert "R@1" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["table.csv", "table.parquet"])
def test_every_query_s_columns_are_written(place: Path, tmp_path: Path, name: str) -> None:
    done = evaluate(place, "old.npz", "--against", "new.npz", "--per-query", tmp_path / name)
    assert done.returncode == 0, done.stderr
    table = (pl.read_csv if name.endswith("csv") else pl.read_parquet)(tmp_path / name)
    assert table.height == 2 * 2 * COUNT
    one = table.filter(system="old.npz", direction="t2v")
    assert one["query_id"].to_list() == CAPTIONS
    assert one["rank"].to_list() == ranks(values(0, 1.0)).tolist()
    assert one["R@1"].to_list() == (100.0 * (ranks(values(0, 1.0)) == 1)).tolist()
    assert table.filter(system="new.npz", direction="v2t")["query_id"].to_list() == CLIPS


def test_hazard_56_no_name_is_a_formula_in_a_spreadsheet(place: Path, tmp_path: Path) -> None:
    shutil.copy(place / "old.npz", tmp_path / "=1+1.npz")
    done = evaluate(place, tmp_path / "=1+1.npz", "--per-query", tmp_path / "table.csv")
    assert done.returncode == 0, done.stderr
    assert set(pl.read_csv(tmp_path / "table.csv")["system"]) == {"'=1+1.npz"}


@pytest.mark.parametrize("direction", ["t2v", "v2t"])
def test_a_run_and_judgements_are_written(place: Path, tmp_path: Path, direction: str) -> None:
    run, qrels = tmp_path / "o.run", tmp_path / "o.qrels"
    out = ("--direction", direction, "--rescore", "csls", "--save-run", run, "--save-qrels", qrels)
    done = evaluate(place, "old.npz", *out)
    assert done.returncode == 0, done.stderr
    before = figures(place, "old.npz", *out[:4])["systems"][0]
    alone = printed_json(here("evaluate", run, "--qrels", qrels, "--direction", direction, "--json"))["systems"][0]
    for after in (figures(place, run, "--direction", direction)["systems"][0], alone):
        assert after["directions"][direction]["summary"] == before["directions"][direction]["summary"]
        assert after["uses"] == ["other queries"]
    assert f"{qrels} names 30 answers of 30 queries; no corpus given" in alone["notices"][0]
    pairs = {tuple(line.split()) for line in (tmp_path / "o.qrels").read_text().splitlines()}
    sides = zip(*((CAPTIONS, CLIPS) if direction == "t2v" else (CLIPS, CAPTIONS)), strict=True)
    assert pairs == {(query, "0", item, "1") for query, item in sides}


@pytest.mark.parametrize("suffix", [".npz", ".npy"])
def test_a_bank_of_the_test_s_own_scores_is_told(place: Path, tmp_path: Path, suffix: str) -> None:
    """It lifts every figure: 35.8 became 40.6 on the example of the docs, with the same label in both."""
    others, bank = values(5, 0.0).repeat(5, axis=0), tmp_path / f"bank{suffix}"
    both = np.vstack([values(0, 1.0), others])
    if suffix == ".npz":
        names = [*CAPTIONS, *(f"other{row}" for row in range(len(others)))]
        np.savez(bank, values=both, video_ids=CLIPS, caption_ids=names)
    else:
        np.save(bank, both)
    system = figures(place, "old.npz", "--rescore", "qb-norm", "--bank", bank)["systems"][0]
    assert system["uses"] == ["a bank of 180 captions, 30 of them with the scores of queries that are corrected"]
    told = [one for one in system["notices"] if "the correction has seen the queries of the test" in one]
    assert [one.split(":")[0] for one in told] == [
        "Of 180 captions of the bank 30 are captions that are evaluated, the first 'c0'"
    ] * (suffix == ".npz")


def test_intervals_over_videos_are_chosen_and_told(place: Path, tmp_path: Path) -> None:
    clips = pl.DataFrame({"clip_id": CLIPS, "path": [f"{row // 3}.mp4" for row in range(COUNT)]})
    clips = clips.with_columns(kitchen=pl.Series([row // 10 for row in range(COUNT)]))
    captions = {"caption_id": CAPTIONS, "clip_id": CLIPS, "text": ["x"] * COUNT}
    save_corpus(make_corpus(clips, pl.DataFrame(captions)), tmp_path / "corpus")

    def asked(*more: str) -> list[str]:
        done = here("evaluate", place / "old.npz", "--corpus", tmp_path / "corpus", "-m", "R@1", *more)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    over = "asked of this very gallery."
    assert any(line.startswith("The 30 clips are of 10 videos (column 'path')") for line in asked())
    for how, what in (((), "10 videos"), (("--cluster", "clip"), "30 clips"), (("--cluster", "kitchen"), "3 values")):
        (line,) = [one for one in asked(*how) if one.endswith(over)]
        assert line.startswith(f"Intervals and tests are over {what}")
    with pytest.raises(CorpusError, match="have a column 'cook' to draw by"):
        app(["evaluate", str(place / "old.npz"), "--corpus", str(tmp_path / "corpus"), "--cluster", "cook"], False)


def test_scores_of_another_split_are_refused_and_partial_ones_only_if_asked(place: Path) -> None:
    whole = ("evaluate", place / "old.npz", "--corpus", place / "corpus")
    done = here(*whole)
    assert (done.returncode, done.stdout) == (1, "")
    assert "have no scores, the first 'c-other'" in done.stderr
    found = printed_json(here(*whole, "--partial", "--json"))
    assert any("a smaller gallery" in notice for notice in found["systems"][0]["notices"])


def test_the_help_names_metrics_and_corrections() -> None:
    done = here("evaluate", "--help")
    words = " ".join(re.sub("[│|]", " ", done.stdout).split())
    assert f"[default: {' '.join(DEFAULT_WORDS)}]" in words
    assert "[default: both]" in words
    listed = documented(MeasureChoice)["metric"].partition(";")[0].replace("@k", "@7").split(", ")
    assert [str(metric) for metric in parse_metrics(listed)] == listed
    for word in (*RESCORINGS, "mAP-EPIC"):
        assert word in words


@pytest.mark.parametrize(("patience_s", "drawn"), [(-1.0, True), (1000.0, False)])
def test_a_bar_is_drawn_only_for_those_who_wait(
    patience_s: float, drawn: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(progress, "PATIENCE_S", patience_s)
    with progress.share_bar("ranking \x1b]0;owned\x07[bold]a.npz") as report:
        report(0.25)
        report(0.75)
    shown = capsys.readouterr().err
    assert ("[bold]a.npz" in shown) == drawn and "\x1b]0;" not in shown


def test_groups_are_told_for_every_system(place: Path, tmp_path: Path) -> None:
    systems = ("old.npz", "--against", "new.npz", "--by", "split", "--by", "words", "-m", "R@1")
    done = evaluate(place, *systems, "--html", tmp_path / "page.html")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("t2v by split") == 4  # a heading and a notice of each
    assert "only one group has 30 clips" in done.stdout
    page = (tmp_path / "page.html").read_text()
    assert "old.npz: groups, t2v" in page and "new.npz: groups, v2t" in page
    document = figures(place, *systems)
    own = document["systems"][1]["directions"]["t2v"]
    (group,) = own["by"]["split"]["groups"]
    assert group["summary"]["R@1"]["value"] == pytest.approx(own["summary"]["R@1"]["value"])


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> Path:
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


def of_moments(timed: Path, name: str | Path, *words: str, corpus: Path | None = None) -> Result:
    file = name if isinstance(name, Path) else timed / f"{name}.jsonl"
    command = ["evaluate", "--moments", str(file), "--corpus", str(corpus or timed / "corpus")]
    return CliRunner().invoke(app, [*command, *words])


def test_beside_a_system_stand_two_guesses(timed: Path) -> None:
    done = of_moments(timed, "good", "--split", "test", "--against", str(timed / "poor.jsonl"), "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    names = [one["name"] for one in found["systems"]]
    assert names == ["good.jsonl", "poor.jsonl", "the whole clip", "the best position of the training annotations"]
    figures = [one["summary"]["mIoU"]["value"] for one in found["systems"]]
    assert figures[:3] == pytest.approx([100, 10, 35])  # .2 and 0 of the poor one, .5 and .2 of whole clips
    assert figures[3] == pytest.approx(100 * (2 / 2.5) / 2, abs=0.1)  # [7.5, 10] is nearest to most
    gained = {one["metric"]: one["value"] for one in found["differences"]}
    assert gained["mIoU"] == pytest.approx(-90)


def test_without_training_annotations_the_position_is_fixed_and_said(timed: Path) -> None:
    done = of_moments(timed, "good", "--partial").output
    assert "the first half of the clip" in done.replace("\n", " ") and "120 queries have no prediction" in done


def test_what_is_read_is_not_written_over_and_no_row_is_a_formula(timed: Path, tmp_path: Path) -> None:
    good = timed / "good.jsonl"
    before = good.read_bytes()
    for path in (good, tmp_path / "rows.txt"):
        assert of_moments(timed, "good", "--split", "test", "--per-query", str(path)).exit_code != 0
    assert good.read_bytes() == before
    (tmp_path / "=1+1.jsonl").write_bytes(before)
    words = ("--split", "test", "--per-query", str(tmp_path / "rows.csv"))
    done = of_moments(timed, tmp_path / "=1+1.jsonl", *words)
    assert done.exit_code == 0, done.output
    header, first, *_ = rows = (tmp_path / "rows.csv").read_text().splitlines()
    assert first.startswith("'=1+1.jsonl,") and header.startswith("system,query_id,clip_id,") and len(rows) == 1 + 3 * 2


def test_wrong_training_annotations_are_no_reason_for_a_fixed_position(timed: Path, tmp_path: Path) -> None:
    clips = pl.DataFrame({"clip_id": ["a", "t"], "split": ["test", "train"]})
    columns = {key: ["a", "t"] for key in ("caption_id", "clip_id", "text")}
    columns["windows"] = [[[0.0, 5.0]], [[9.0, 7.0]]]
    save_corpus(make_corpus(clips, pl.DataFrame(columns)), tmp_path / "corpus")
    (tmp_path / "p.jsonl").write_text(json.dumps({"qid": "a", "pred_relevant_windows": [[0, 5]]}))
    refused = of_moments(timed, tmp_path / "p.jsonl", "--split", "test", corpus=tmp_path / "corpus").exception
    assert "'t' has a window from 9 to 7 s" in str(refused)


def test_what_is_not_of_moments_gets_a_sentence(timed: Path, tmp_path: Path) -> None:
    for words in (("--rescore", "dsl"), ("--html", "x.html"), ("--ties", "optimistic"), ("--by", "split")):
        assert "--moments measures windows in time" in str(of_moments(timed, "good", *words).exception)
    clips, captions = pl.DataFrame({"clip_id": ["a"]}), {"caption_id": ["a"], "clip_id": ["a"], "text": ["a"]}
    save_corpus(make_corpus(clips, pl.DataFrame(captions)), tmp_path / "corpus")
    assert "captions' column 'windows'" in str(of_moments(timed, "good", corpus=tmp_path / "corpus").exception)
    assert "is no metric of moments" in str(of_moments(timed, "good", "-m", "R@1").exception)
