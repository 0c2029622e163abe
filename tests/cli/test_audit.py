"""`evenreel audit` as a person types it: one system, several, a library, twins, and what is wrong in a sentence."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner, Result

from evenreel import checkpoint as checkpoint_module
from evenreel import library as library_module
from evenreel.audits import AUDITS, Audit, AuditSettings, audit_source
from evenreel.cli.app import app
from evenreel.cli.audit import library as audit_library
from evenreel.corpus import load_corpus, make_corpus, save_corpus, select
from evenreel.errors import CorpusError, OutputError, ScoresError, UsageError
from evenreel.evaluation import save_scores
from evenreel.evaluation.ranking import CheckedScores
from evenreel.library import Library, open_library
from evenreel.report import AuditTable
from evenreel.types import Corpus, ScoreBlocks, ScoreNotes, Scores
from tests.audits.small_lengths import ranked_clips, ranking, training_clips
from tests.audits.small_orders import Ranker, both, orders
from tests.cli.test_library_commands import here
from tests.library.fakes import SUBJECTS, WordsEncoder, on_disk
from tests.library.mirrored import finish_on_disk
from tests.library.search.test_rerank import LastFrame, pretrained

PAIRS = 40
REAL = [f"v{number}" for number in range(PAIRS)]
MADE = [f"g{number}" for number in range(PAIRS)]
CAPTIONS = [f"c{number}" for number in range(PAIRS)]
GENERATOR = "[red]sora[/red]"


def values(seed: int, favour: float) -> np.ndarray[Any, Any]:
    """Similarities in which a generated clip gets so much more than a real one."""
    own = 2 * np.tile(np.eye(PAIRS), 2)
    return np.random.default_rng(seed).normal(size=own.shape) + own + favour * (np.arange(2 * PAIRS) >= PAIRS)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus with a mirror of every clip, a clip of another split, and the scores of two systems."""
    place = tmp_path_factory.mktemp("audit")
    clips = pl.DataFrame(
        {
            "clip_id": [*REAL, *MADE, "other"],
            "source": ["camera"] * PAIRS + [GENERATOR] * PAIRS + ["camera"],
            "pair_id": [*[None] * PAIRS, *REAL, None],
            "split": ["test"] * 2 * PAIRS + ["train"],
        }
    )
    captions = {"caption_id": CAPTIONS, "clip_id": REAL, "text": [f"text {number}" for number in range(PAIRS)]}
    save_corpus(make_corpus(clips, pl.DataFrame(captions)), place / "corpus")
    for name, favour in (("fair.npz", 0.0), ("unfair.npz", 3.0)):
        save_scores(Scores(values(1, favour), CAPTIONS, [*REAL, *MADE]), place / name)
    np.save(place / "unfair.npy", values(1, 3.0))
    (place / "bad.npz").write_bytes(b"no zip file")
    (place / "q.txt").write_text("\ufeff# what people ask\n\n  a red bus \na dog\n", encoding="utf-8")
    (place / "empty.txt").write_text("# nothing\n\n", encoding="utf-8")
    (place / "latin.txt").write_bytes("caf\xe9".encode("latin-1"))
    return place


def audit(place: Path, *words: str | Path) -> Result:
    """The command in this process, on the test split."""
    named = [place / one if isinstance(one, str) and (place / one).exists() else one for one in words]
    return CliRunner().invoke(app, ["audit", *map(str, named)])


def of_scores(place: Path, *words: str | Path) -> Result:
    done = audit(place, "source", *words, "--corpus", place / "corpus", "--split", "test", "--resamples", "50")
    assert done.exit_code == 0, done.output
    return done


def test_the_sentence_the_effect_the_tables_and_the_page(place: Path, tmp_path: Path) -> None:
    words = ("--corpus", place / "corpus", "--split", "test", "--report", tmp_path / "new" / "r.html", "--seed", "3")
    done = here("audit", "source", "--scores", place / "unfair.npz", *words, COLUMNS="80")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[1].startswith("The ranking favours generated clips: Normalized")
    assert lines[2].startswith(f"Normalized Δ MixR ({GENERATOR}): -") and lines[2].endswith(": below 0")
    page = (tmp_path / "new" / "r.html").read_text(encoding="utf-8")
    assert page.index(lines[1]) < page.index('class="chart"') < page.index("<table>") < page.index("How it was calcul")


def test_tables_are_not_broken_in_a_narrow_terminal(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = AuditTable("Wide", ("group", "what", *("figure " * 3 for _ in range(6))), (("a", "b", *[1.5] * 6),))
    tall = replace(wide, title="Tall", rows=tuple((f"w{number}", *[1.5] * 7) for number in range(12)))
    long = AuditTable("Long", ("clip", "n"), tuple((f"v{number}", number) for number in range(45)), "A note.")
    result = audit_source(Scores(values(1, 0.0), CAPTIONS, [*REAL, *MADE]), load_corpus(place / "corpus"))
    changed = replace(result, tables=(wide, long, tall))
    monkeypatch.setitem(AUDITS, "source", Audit(lambda *_: changed))
    printed = of_scores(place, "--scores", "fair.npz").output
    assert printed.partition("Tall\n")[0].count("1.50") == 6
    assert "w9" in printed and "w10" not in printed and "  and 2 more rows" in printed
    assert all(len(line) <= 80 for line in printed.partition("Wide\n")[2].splitlines())
    assert "\na\n  b\n    figure figure figure   1.50\n" in printed
    assert "v39" in printed and "v40" not in printed
    assert "  and 5 more rows (--json lists them all)\nA note.\n" in printed


def test_json_has_every_system_and_audit(place: Path, tmp_path: Path) -> None:
    out = ("--scores", "fair.npz", "--scores", "unfair.npz", "--json", "--report", tmp_path / "r.html")
    found = json.loads(of_scores(place, *out).stdout)
    assert [one["system"] for one in found["audits"]] == ["fair.npz", "unfair.npz"]
    assert found["report"] == str(tmp_path / "r.html")
    fair, unfair = (one["effect"] for one in found["audits"])
    assert unfair["high"] < min(0, fair["value"])
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "In short" in page
    assert "[red]sora[/red]" in page


def test_the_figures_are_those_of_the_library_call(place: Path) -> None:
    (found,) = json.loads(of_scores(place, "--scores", "unfair.npz", "--json", "--confidence", "0.8").stdout)["audits"]
    corpus = select(load_corpus(place / "corpus"), split="test")
    settings = AuditSettings(resamples=50, confidence=0.8)
    expected = audit_source(Scores(values(1, 3.0), CAPTIONS, [*REAL, *MADE]), corpus, settings).to_json()
    assert found == expected | {"system": "unfair.npz"}


def test_scores_tell_how_far_they_are_read_and_what_they_use() -> None:
    told: list[float] = []
    inner = Scores(values(0, 0.0), CAPTIONS, [*REAL, *MADE], ScoreNotes(("other queries",)))
    watched = CheckedScores(inner, told.append)
    np.testing.assert_array_equal(watched.block(slice(0, 10), slice(0, 5)), inner.values[:10, :5])
    assert told == [0.25]
    assert (watched.caption_ids, watched.video_ids, watched.about) == (CAPTIONS, [*REAL, *MADE], inner.about)


class Opened:
    """A library that scores two queries."""

    def __init__(self, corpus: Corpus) -> None:
        self.corpus, self.asked = corpus, [""]

    def __enter__(self) -> Opened:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def audit_inputs(self, queries: list[str], *, every_clip: bool) -> tuple[Corpus, ScoreBlocks]:
        assert not every_clip
        self.asked = queries
        return self.corpus, Scores(values(0, 1.0)[:2], ["q1", "q2"], [*REAL, *MADE])


def opens(monkeypatch: pytest.MonkeyPatch, opened: Opened) -> None:
    monkeypatch.setattr(library_module, "open_library", lambda path: opened)
    monkeypatch.setattr(
        audit_library, "audit_inputs", lambda opened, queries, **kind: opened.audit_inputs(queries, **kind)
    )


def test_a_library_is_asked_the_sentences_of_the_file(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clips = load_corpus(place / "corpus").clips
    captions = pl.DataFrame(schema={"caption_id": pl.String, "clip_id": pl.String, "text": pl.String})
    opened = Opened(make_corpus(clips, captions))
    opens(monkeypatch, opened)
    done = audit(place, "source", "--library", "lib", "--queries", "q.txt")
    assert done.exit_code == 0, done.output
    assert opened.asked == ["a red bus", "a dog"]
    assert done.stdout.startswith("Are real or generated clips favoured?\n")
    assert "2 queries, 40 real and 40 generated clips" in done.stdout


def test_an_audit_that_the_corpus_does_not_allow_leaves_the_others_their_results(place: Path, tmp_path: Path) -> None:
    words = ("confounds", "source", "--corpus", place / "corpus", "--resamples", "20", "--report", tmp_path / "r.html")
    done = audit(place, *words, "--scores", "fair.npz", "--scores", "unfair.npz", "--json")
    assert done.exit_code == 3, done.output
    found = json.loads(done.stdout)
    assert [one["name"] for one in found["audits"]] == ["source", "source"]
    assert len(found["not_made"]) == 2
    assert found["not_made"][0].startswith("fair.npz: The audit confounds was not made. The corpus says nothing of")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "unfair.npz: The audit confounds was not made." in page
    plain = audit(place, *words, "--scores", "fair.npz")
    assert plain.exit_code == 3 and "Are real or generated clips favoured?" in plain.stdout
    alone = audit(place, "confounds", "--corpus", place / "corpus", "--scores", "fair.npz").exception
    assert isinstance(alone, CorpusError) and "The corpus says nothing of its clips' codec" in str(alone)


def test_scores_of_all_splits_are_cut_to_the_one_that_is_asked_for(place: Path, tmp_path: Path) -> None:
    every = np.pad(values(1, 3.0), ((1, 0), (0, 1)), constant_values=9.0)
    save_scores(Scores(every, ["stray", *CAPTIONS], [*REAL, *MADE, "other"]), tmp_path / "all.npz")
    refused = audit(place, "source", "--scores", tmp_path / "all.npz", "--corpus", place / "corpus", "--split", "test")
    assert "names 'stray', which is no caption of the corpus" in str(refused.exception)
    save_scores(Scores(every[1:], CAPTIONS, [*REAL, *MADE, "other"]), tmp_path / "all.npz")
    cut = json.loads(of_scores(place, "--scores", tmp_path / "all.npz", "--json").stdout)["audits"][0]
    own = json.loads(of_scores(place, "--scores", "unfair.npz", "--json").stdout)["audits"][0]
    assert cut["effect"] == own["effect"]
    assert "The file also has scores of 1 clip of other parts of the corpus, which are left out." in cut["notices"]


def test_a_notice_of_several_results_is_printed_once(place: Path) -> None:
    named = ("--scores", "unfair.npz", "--scores", "unfair.npy", "--corpus", place / "corpus", "--split", "test")
    printed = audit(place, "source", "hubness", *named, "--resamples", "50").output
    assert printed.count("names no ids") == 1
    assert "unfair.npy: The table names no ids" in printed


@pytest.fixture(scope="module")
def lengths(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus with a training part, and scores that lean towards its lengths."""
    place = tmp_path_factory.mktemp("lengths")
    (train, _), (test, _) = training_clips(), ranked_clips()
    both = (pl.concat([getattr(train, name), getattr(test, name)]) for name in ("clips", "captions"))
    save_corpus(make_corpus(*both), place / "corpus")
    save_scores(ranking(0.4), place / "lean.npz")
    (place / "tail.csv").write_text("verb\n0\n1\n")
    return place


def test_lengths_are_held_against_those_of_the_training_part(lengths: Path, tmp_path: Path) -> None:
    words = ("--scores", lengths / "lean.npz", "--corpus", lengths / "corpus", "--split", "test", "--resamples", "50")
    more = ("--tail-classes", lengths / "tail.csv", "--report", tmp_path / "r.html")
    done = here("audit", "length", *words, *more, COLUMNS="120")
    assert (done.returncode, done.stderr) == (0, "")
    assert "The ranking leans towards the lengths that classes had in training: rank correlation" in done.stdout
    assert "Verbs of the tail: 2; nouns: 0; as tail.csv lists them." in done.stdout
    assert "How relevant the first 50 are" in (tmp_path / "r.html").read_text(encoding="utf-8")
    named = audit(lengths, "length", *words, "--train-split", "train", "--json")
    (found,) = json.loads(named.stdout)["audits"]
    assert found["effect"]["low"] > 0
    assert len([table for table in found["tables"] if "uses test statistics" in json.dumps(table)]) == 4


def test_a_library_is_asked_for_every_clip_where_sources_do_not_matter(
    lengths: Path, monkeypatch: pytest.MonkeyPatch, place: Path
) -> None:
    corpus, _ = ranked_clips()
    asked: list[bool] = []

    def inputs(queries: list[str], *, every_clip: bool) -> tuple[Corpus, ScoreBlocks]:
        asked.append(every_clip)
        if not every_clip:
            raise CorpusError("No clip has a source.")
        found = ranking(0.0, 0.5)
        return Corpus(corpus.clips, corpus.captions.clear()), Scores(found.values[:2], ["q1", "q2"], found.video_ids)

    opened = Opened(corpus)
    monkeypatch.setattr(opened, "audit_inputs", inputs)
    opens(monkeypatch, opened)
    done = audit(place, "length", "--library", "lib", "--queries", "q.txt")
    assert done.exit_code == 0, done.output
    assert asked == [True]
    assert "What was seen leans towards long clips" in done.stdout
    both = audit(place, "source", "length", "--library", "lib", "--queries", "q.txt")
    assert both.exit_code == 3, both.output
    assert both.stdout.startswith("The audit source was not made. No clip has a source.\n")
    assert done.stdout in both.stdout


def run(*words: str | Path) -> Result:
    done = CliRunner().invoke(app, list(map(str, words)))
    assert done.exit_code == 0, done.output
    return done


def test_real_clips_from_their_table_to_a_report_that_says_they_are_too_few(real_clips: Path, tmp_path: Path) -> None:
    corpus, features, scores = tmp_path / "corpus", tmp_path / "features", tmp_path / "zero.npz"
    run("corpus", "import", "table", real_clips / "manifest.csv", "--out", corpus)
    how = ("--model", "builtin", "--frames", "1", "--no-ocr", "--videos", real_clips, "--device", "cpu")
    run("features", corpus, *how, "--out", features)
    run("score", "mean_pool", corpus, "--features", features, "--device", "cpu", "--out", scores)
    report = tmp_path / "r.html"
    done = run("audit", "source", "--scores", scores, "--corpus", corpus, "--report", report, "--json")
    (found,) = json.loads(done.stdout)["audits"]
    few = "Too few clips to conclude: 8 real and 2 generated."
    assert found["sentence"].startswith(few) and few in report.read_text(encoding="utf-8")


WRONG = [
    ("taste @", UsageError, "'taste' is no audit; there are: source, confounds"),
    ("source source @", UsageError, "The audit source is named twice"),
    ("source", UsageError, "Give either --scores FILE"),
    (
        "source --scores fair.npz",
        UsageError,
        "goes with --corpus, a folder or table (clip_id, text, duration_s)",
    ),
    ("source --library lib", UsageError, "--library goes with --queries; give both"),
    ("source --library lib --queries q.txt --corpus corpus", UsageError, "leave them out"),
    ("source @ --queries q.txt", UsageError, "goes with --library; leave it out"),
    ("source --library lib --queries none.txt", UsageError, "none.txt cannot be read (no such file"),
    ("source --library lib --queries empty.txt", UsageError, "empty.txt holds no sentence"),
    ("source --library lib --queries latin.txt", UsageError, "latin.txt is no UTF-8 text (byte 3)"),
    ("source --scores fair.npz @", UsageError, "is named twice"),
    ("source --scores bad.npz --corpus corpus", ScoresError, "is no zip file"),
    ("source @ --split tset", CorpusError, "No clip is left"),
    ("source @ --split train", ScoresError, "its captions are of 'test'; choose that"),
    ("source @ --train-split train", UsageError, "go with the audit length"),
    ("length @ --split a --train-split a", UsageError, "both name 'a'"),
    ("length @ --tail-classes q.txt", UsageError, "it needs verb, noun, or both"),
    ("length @ --split test", CorpusError, "says of no clip how long it is"),
    ("source @ --report fair.npz/r.html", OutputError, "cannot be written"),
    # hazard 214: options that do not go with the audit of order
    (
        "order @ --rerank m",
        UsageError,
        "order of --library alone",
    ),
    (
        "order hubness --library lib --queries q.txt --rerank m",
        UsageError,
        "order of --library alone",
    ),
    (
        "hubness @ --kinds split",
        UsageError,
        "--kinds goes with the audit",
    ),
    (
        "order --library lib --queries q.txt --edited a=fair.npz",
        UsageError,
        "against those after an edit",
    ),
    (
        "order visual @ --edited a=fair.npz",
        UsageError,
        "give each a command of its own",
    ),
]


def test_hazard_214_what_is_wrong_is_said_in_a_sentence(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    for words, error, sentence in WRONG:
        done = CliRunner().invoke(app, ["audit", *words.replace("@", "--scores fair.npz --corpus corpus").split()])
        assert isinstance(done.exception, error) and sentence in str(done.exception), words


def test_the_tables_are_printed_before_a_page_that_fails(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OutputError("The disk is full.")

    monkeypatch.setattr("evenreel.report.write_page", fail)
    done = audit(place, "source", "--scores", "fair.npz", "--corpus", "corpus", "--report", place / "r.html")
    assert isinstance(done.exception, OutputError)
    assert "How often the real clip stands above its mirror" in done.stdout


def test_hubs_of_a_library_have_the_names_of_their_files(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = values(1, 0.0)
    found[:, 5] += 9
    corpus, asked = load_corpus(place / "corpus"), [f"q{row}" for row in range(PAIRS)]
    found[::2, 6:8] += 9
    texts = {one: f"a {('dog', 'horse')[row % 2]} in a field" for row, one in enumerate(asked)}
    files = {"v6": "/v/tram ride.mp4", "v0": "/v/boat.mp4"}
    known = Scores(found, asked, [*REAL, *MADE], ScoreNotes(texts=texts, names=files))
    opened = Opened(Corpus(corpus.clips, corpus.captions.clear()))
    monkeypatch.setattr(opened, "audit_inputs", lambda queries, **_: (opened.corpus, known))
    opens(monkeypatch, opened)
    done = audit(place, "hubness", "--library", "lib", "--queries", "q.txt")
    assert done.exit_code == 0, done.output
    assert "Queries with 'dog' have more hubs among their first clips than others." in done.stdout
    assert "'v5' is there for 40 of 40 queries" in done.stdout  # no file has it any more
    assert "/v/tram ride.mp4 " in done.stdout and "v6" not in done.stdout


def test_scores_that_are_infinite_are_told_of(place: Path, tmp_path: Path) -> None:
    table = values(1, 0.0)
    table[3, 5] = np.inf
    save_scores(Scores(table, CAPTIONS, [*REAL, *MADE]), tmp_path / "overflown.npz")
    (found,) = json.loads(of_scores(place, "--scores", tmp_path / "overflown.npz", "--json").stdout)["audits"]
    assert found["notices"][0].startswith("The score of caption 'c3' and video 'v5' is plus infinity")


TWINS = 40
ORDERS = orders(TWINS, both(TWINS), [f"a man {('opens', 'closes')[one % 2]} a door" for one in range(2 * TWINS)])


@pytest.fixture(scope="module")
def ordered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Clips and their twins with scores; scores of the clips alone, and of these turned round; a library."""
    ordered = tmp_path_factory.mktemp("order")
    save_corpus(ORDERS, ordered / "corpus")
    values = Ranker(2.0, disliked=0.5).values(ORDERS, 1).astype(np.float32)
    scores = Scores(values, ORDERS.captions["caption_id"].to_list(), ORDERS.clips["clip_id"].to_list())
    save_scores(scores, ordered / "sees.npz")
    shot, captions = scores.video_ids[:TWINS], scores.caption_ids
    for name, part in (("clips", slice(TWINS)), ("turned", slice(TWINS, None))):
        save_scores(Scores(scores.values[:, part], captions, shot), ordered / f"{name}.npz")
    made = on_disk(ordered / "lib")
    for number in range(TWINS):
        first, last = SUBJECTS[number % 6], SUBJECTS[(number + 1) % 6]
        made.add_clip(f"c{number:02}", [f"{first} ordered{number}", f"ordered{number}", f"{last} ordered{number}"])
        made.add_file(f"/v/{number:02}.mp4", f"c{number:02}")
    finish_on_disk(made)
    made.connection.close()
    sentences = [f"{SUBJECTS[(number + 1) % 6]} ordered{number}" for number in range(TWINS)]
    (ordered / "q.txt").write_text("\n".join(sentences), encoding="utf-8")
    return ordered


def test_what_sees_order_is_told(ordered: Path, tmp_path: Path) -> None:
    words = ("--scores", ordered / "sees.npz", "--corpus", ordered / "corpus", "--report", tmp_path / "r.html")
    done = here("audit", "order", *words, COLUMNS="120")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[1].startswith("The ranking sees order: in ") and lines[2].endswith(": above 50")
    assert "By kind of action" in lines and lines[1][:60] in (tmp_path / "r.html").read_text(encoding="utf-8")
    found = json.loads(here("audit", "order", *words, "--kinds", "split", "--json").stdout)["audits"][0]
    assert "Of 40 of 40 pairs no kind of action is known." in found["notices"]


def told(ordered: Path, *words: str) -> Any:
    done = CliRunner().invoke(app, ["audit", "order", *words, "--json"])
    assert done.exit_code == 0, done.output
    (found,) = json.loads(done.stdout)["audits"]
    return found


def test_scores_of_another_order_say_the_same_as_twins_in_the_corpus(
    ordered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ordered)
    twins = told(ordered, "--scores=sees.npz", "--corpus=corpus")
    edited = told(ordered, "--scores=clips.npz", "--edited=reversed=turned.npz", "--corpus=corpus")
    assert edited["effect"] == twins["effect"] and edited["sentence"] == twins["sentence"]
    blind = told(ordered, "--scores=clips.npz", "--edited=reversed=clips.npz", "--corpus=corpus")
    assert blind["sentence"].startswith("The ranking is order-blind")


@pytest.fixture
def library(ordered: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    opened = open_library(ordered / "lib", encoder=WordsEncoder())
    monkeypatch.setattr(library_module, "open_library", lambda path: opened)
    return opened


@pytest.mark.usefixtures("library")
def test_the_search_of_a_library_is_blind_and_exits_with_0(ordered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ordered)
    found = told(ordered, "--library=lib", "--queries=q.txt")
    assert found["sentence"].startswith("The ranking is order-blind")


@pytest.mark.usefixtures("library")
def test_a_matcher_that_re_ranks_a_library_may_see_order(ordered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It likes clips by their last frame, and every sentence says what that shows."""
    monkeypatch.chdir(ordered)
    monkeypatch.setattr(checkpoint_module, "load_matcher", lambda name: {"last": pretrained(LastFrame())}[name])
    found = told(ordered, "--library=lib", "--queries=q.txt", "--rerank=last")
    assert found["sentence"].startswith("The ranking sees order: in ")
    assert any("Nobody has said which clip a sentence is of" in notice for notice in found["notices"])
