"""The page: text is text, charts hold the figures, and nothing is fetched. Chromium reads it where it is installed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import polars as pl
import pytest

from evenreel.corpus import make_corpus
from evenreel.errors import OutputError
from evenreel.evaluation import Evaluation, EvaluationSettings, Interval, evaluate, parse_metric
from evenreel.evaluation.comparison import compare
from evenreel.evaluation.metrics import VideoProtocol
from evenreel.report import Chart, Page, Section, Table, Text, evaluation_page, write_page
from evenreel.report import figures as figures_module
from evenreel.report.figures import curve_points, query_scatter, rank_histogram, rank_shares, wrapped
from evenreel.report.page import render, training_page
from evenreel.report.words import interval, main_sentence, number, signed
from evenreel.types import Corpus, ScoreNotes, Scores

ATTACK = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)> & \"quoted\" %{x} <b>bold</b>"
NEW = '<i>"new" it\'s %{x}</i>'
COUNT = 40


def corpus() -> Corpus:
    clips = [f"v{i}" for i in range(COUNT)]
    texts = [ATTACK if i == 3 else f"caption number {i}" for i in range(COUNT)]
    captions = {"caption_id": [f"c{i}" for i in range(COUNT)], "clip_id": clips, "text": texts}
    return make_corpus(pl.DataFrame({"clip_id": clips}), pl.DataFrame(captions))


def evaluation(seed: int, settings: EvaluationSettings) -> Evaluation:
    own = corpus()
    values = np.random.default_rng(seed).normal(size=(COUNT, COUNT)) + 1.5 * np.eye(COUNT)
    scores = Scores(
        values, own.captions["caption_id"].to_list(), own.clips["clip_id"].to_list(), ScoreNotes(("other queries",))
    )
    return evaluate(scores, own, settings)


@pytest.fixture(scope="module")
def page() -> str:
    settings = EvaluationSettings(resamples=100)
    first, second = evaluation(0, settings), evaluation(1, settings)
    comparison = compare(first, {NEW: second}, settings)
    return render(evaluation_page({"old": first, NEW: second}, corpus(), comparison, settings))


class Elements(HTMLParser):
    """Every element with its attributes, and the text outside of scripts."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.found and self.found[-1][0] not in ("script", "style"):
            self.words += data


def chart_data(page: str) -> list[dict[str, Any]]:
    return [
        json.loads(data)
        for data in re.findall(r'<script type="application/json" id="chart-\d+-data">(.*?)</script>', page, re.DOTALL)
    ]


def test_words_from_outside_are_text(page: str) -> None:
    elements = Elements(page)
    tags = [tag for tag, _ in elements.found]
    assert not {"img", "i", "b", "iframe", "link"} & set(tags)
    charts = len(chart_data(page))
    assert tags.count("script") == charts + 2  # Plotly once, the data, what draws
    assert NEW in elements.words
    assert "</script><script>document.title" not in page
    hover = json.dumps([trace.get("customdata") for chart in chart_data(page) for trace in chart["data"]])
    assert "&lt;/script&gt;" in hover
    assert "<script" not in hover


def test_nothing_is_fetched(page: str) -> None:
    for _, attributes in Elements(page).found:
        assert not {"src", "href"} & set(attributes)
    assert "default-src 'none'" in page


def test_the_page_says_the_main_figure_then_what_must_be_known(page: str) -> None:
    words = Elements(page).words
    order = [
        "% of 40 captions find their answer first among 40 candidates (95% interval ",
        "after Holm's correction",
        "These scores use other queries",
        "Captions look for videos",
        "Videos look for captions",
        "How it was calculated",
        "chance that one of the first k",
    ]
    places = [words.find(one) for one in order]
    assert -1 not in places
    assert places == sorted(places)


def test_what_is_true_of_several_systems_is_said_once(page: str) -> None:
    words = Elements(page).words
    assert words.count("These scores use other queries") == 1
    assert "Both systems: These scores use other queries" in words


def test_figures_of_different_scales_have_axes_of_their_own() -> None:
    measured = {"R@1": 30.0, "R@10": 60.0, "MedR": 4.0, "MeanR": 20.0, "Rsum": 140.0, "R@1 (member 2)": 31.0}
    curves = {f"validation/{name}": [(1.0, value), (2.0, value)] for name, value in measured.items()}
    (chart,) = chart_data(render(training_page("a run", "lead", curves, "name: a")))
    axes = {trace["name"]: trace["yaxis"] for trace in chart["data"]}
    assert axes == {"R@1": "y", "R@10": "y", "R@1 (member 2)": "y", "MedR": "y2", "MeanR": "y2", "Rsum": "y3"}
    layout = chart["layout"]
    titles = [layout[name]["title"]["text"] for name in ("yaxis", "yaxis2", "yaxis3")]
    assert titles == ["%", "rank, less is better", "sum of three, %"]
    assert [one["text"] for one in layout["annotations"]] == ["<b>R@1, R@10</b>", "<b>MedR, MeanR</b>", "<b>Rsum</b>"]


def test_one_system_without_intervals_has_a_page_too() -> None:
    settings = EvaluationSettings(resamples=0, t2v_protocol="video-mean", directions=("t2v",))
    page = render(evaluation_page({"only": evaluation(0, settings)}, corpus(), None, settings))
    words = Elements(page).words
    assert "On average over 40 clips, " in words
    assert "% of a clip's captions find it first among 40 candidates." in words
    assert "Differences" not in words
    assert len(chart_data(page)) == 2


def test_the_curve_passes_through_recall() -> None:
    settings = EvaluationSettings(resamples=50)
    result = evaluation(0, settings).directions["t2v"]
    points = dict(curve_points(result, 0.95))
    for k in (1, 5, 10):
        assert points[k].value == pytest.approx(result.summary[f"R@{k}"].value)
    assert (min(points), max(points)) == (1, COUNT) and points[COUNT].value == 100
    assert all(one.low <= one.value <= one.high for one in points.values())  # type: ignore[operator]
    assert (np.diff([one.value for one in points.values()]) >= 0).all()


def test_the_curve_agrees_with_the_table_where_scores_are_tied() -> None:
    own = corpus()
    scores = Scores(np.zeros((COUNT, COUNT)), own.captions["caption_id"].to_list(), own.clips["clip_id"].to_list())
    result = evaluate(scores, own, EvaluationSettings(resamples=50)).directions["t2v"]
    assert result.summary["R@10"].value == pytest.approx(25)
    assert all(one.value == pytest.approx(100 * k / COUNT) for k, one in curve_points(result, 0.95))


@pytest.mark.parametrize(
    ("protocol", "sentence"),
    [
        ("every-caption", "% of a clip's captions are found among the first 5 of the captions that do not answer it."),
        ("best-caption", "% of 40 clips find their answer among the first 5 of 40 candidates."),
    ],
)
def test_the_main_sentence_is_of_what_is_counted(protocol: VideoProtocol, sentence: str) -> None:
    settings = EvaluationSettings(
        metrics=(parse_metric("R@5"),), resamples=0, v2t_protocol=protocol, directions=("v2t",)
    )
    assert main_sentence(evaluation(0, settings)).endswith(sentence)


def test_small_figures_keep_their_digits() -> None:
    share = parse_metric("mAP")
    assert interval(Interval(0.38, 0.372, 0.391), share) == "0.37 to 0.39"
    assert signed(0.04, share) == "+0.04"
    assert number(12.34, parse_metric("MeanR")) == "12.3"


def test_the_bins_hold_every_query_once() -> None:
    result = evaluation(0, EvaluationSettings(resamples=0)).directions["t2v"]
    labels, shares = rank_shares(result)
    assert labels == ["1", "2", "3–5", "6–10", "11–20", "21–40"]
    ranks = result.first_rank
    assert shares[0] == pytest.approx(100 * np.mean(ranks == 1))
    assert shares[2] == pytest.approx(100 * np.mean((ranks >= 3) & (ranks < 6)))
    assert shares.sum() == pytest.approx(100)
    assert list(rank_histogram({"a": result}).data[0].y) == list(shares)


def test_a_large_scatter_is_a_seeded_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures_module, "MOST_POINTS", 10)
    settings = EvaluationSettings(resamples=0)
    first, second = (evaluation(seed, settings).directions["t2v"] for seed in (0, 1))
    words = [f"w{i}" for i in range(COUNT)]
    figure, drawn = query_scatter({"a": first, "b": second}, words, 0)
    assert drawn == 10
    points = {
        word: (x, y)
        for trace in figure.data
        if trace.customdata is not None
        for word, x, y in zip(trace.customdata, trace.x, trace.y, strict=True)
    }
    assert len(points) == 10
    for word, (x, y) in points.items():
        row = int(word[1:])
        assert (x, y) == (first.first_rank[row], second.first_rank[row])
    assert figure.to_json() == query_scatter({"a": first, "b": second}, words, 0)[0].to_json()


def test_long_words_are_cut_and_folded() -> None:
    assert wrapped('say "it\'s" & <b>') == 'say "it\'s" &amp; &lt;b&gt;'
    lines = wrapped("word " * 200).split("<br>")
    assert len(lines) <= 5
    assert max(map(len, lines)) <= 60
    assert wrapped("  ") == "(no words)"


def test_a_recipe_keeps_its_lines_and_indentation() -> None:
    recipe = 'name: "<i>"\nloop:\n  epochs: 5\n'
    words = render(training_page("a run", "lead", {"loss/contrastive": [(1, 2.0)]}, recipe))
    assert '<pre class="code">name: &quot;&lt;i&gt;&quot;\nloop:\n  epochs: 5\n</pre>' in words


def test_a_page_without_charts_has_no_script_and_is_written_whole(tmp_path: Path) -> None:
    table = Table(["a & b"], [["<x>"]], "c")
    page = Page("$title", "lead \ud800", [Section("s", [Text("t", "notice"), table])])
    write_page(page, tmp_path / "new" / "p.html")
    words = (tmp_path / "new" / "p.html").read_text()
    assert "<script" not in words
    assert '<td class="words">&lt;x&gt;</td>' in words
    assert "<title>$title</title>" in words
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        write_page(page, tmp_path / "file" / "p.html")


@pytest.mark.skipif(shutil.which("chromium") is None, reason="Chromium is not installed")
def test_chromium_draws_every_chart_and_runs_no_caption(page: str, tmp_path: Path) -> None:
    (tmp_path / "p.html").write_text(page)
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    done = subprocess.run(
        [*command, "--virtual-time-budget=8000", "--dump-dom", f"file://{tmp_path}/p.html"],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert f'data-drawn="{len(chart_data(page))}"' in done.stdout
    assert "<title>owned" not in done.stdout
    assert "<title>Evaluation of old" in done.stdout
    drawn = done.stdout.partition("<svg")[2].partition("<script")[0]
    assert drawn.count('&lt;i&gt;"new" it\'s %{x}&lt;/i&gt;</text>') >= 2  # the legends of both recall curves
    assert "&amp;quot;" not in drawn


def test_a_chart_s_data_cannot_end_its_script() -> None:
    figure = go.Figure(go.Scatter(x=[1], y=[1], name="</script><script>alert(1)</script><!--"))
    page = render(Page("t", "l", [Section("s", [Chart(figure)])]))
    assert [tag for tag, _ in Elements(page).found].count("script") == 3
    assert chart_data(page)[0]["data"][0]["name"] == "</script><script>alert(1)</script><!--"
