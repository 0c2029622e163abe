"""The page of adaptation: clips by name or picture, steps in a table that a laptop's window has room for."""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from evenreel.adaptation.adapted import AdaptationStep
from evenreel.adaptation.run import AdaptReport, Changes, adaptation_page
from evenreel.adaptation.safety import MeanChange, QualityVerdict
from evenreel.adaptation.titan import LabelRank
from evenreel.report.page import render

LAPTOP = """<script>
  const page = document.createElement("iframe");
  page.style = "width: 1280px; height: 900px";
  page.src = "p.html";
  page.onload = () => {
    const tables = [...page.contentDocument.querySelectorAll(".scroll")];
    document.title = tables.map((one) => one.scrollWidth - one.clientWidth).join(" ");
  };
  document.body.append(page);
</script>"""
LONG = "a person who cuts an onion in a kitchen while somebody else looks on.mp4"


def page(pictures: dict[str, bytes]) -> str:
    change = MeanChange(-0.123, -0.234, 0.345)
    verdict = QualityVerdict(False, {"agreement": change, "coverage": change, "entropy": change})
    rank = LabelRank(5.5, 1.25, 10, 0.04)
    steps = tuple(
        AdaptationStep(number, 4_096, 12_345, 2_345, 0.123, 0.456, {"a": 12.345}, (), verdict, label_rank=rank)
        for number in (1, 2)
    )
    measures = {"agreement": 0.5, "coverage": 0.4, "entropy": 1.0}
    examples = (("an onion <b>", "v1", "v2"), ("a red bus", "v2", "v3"))
    changes = Changes(
        queries=12_345, videos=200, first_changed=0.25,
        examples=tuple({"query": query, "before": one, "after": other} for query, one, other in examples), places=10,
        hubs=({"clip": "v1", "before": 900, "after": 300},), skewness=(1.0, 0.5), words=(),
        measured=1_024, before=measures, after=measures,
    )  # fmt: skip
    report = AdaptReport(True, "Adapted.", steps)
    names = {"v1": LONG, "v2": "<two>.mp4"}
    return render(adaptation_page("t", report, changes, "lr: 1", names, pictures))


def test_examples_with_pictures_and_without() -> None:
    found = page({"v1": b"one", "v2": b"two"})
    shown = re.findall(
        r'<figure><img src="data:image/jpeg;base64,([^"]+)" alt=""><figcaption>(.*?)</figcaption>', found
    )
    short = "a person who cuts an oni ... dy else looks on.mp4"
    assert [(base64.b64decode(data), words) for data, words in shown] == [
        (b"one", short), (b"two", "&lt;two&gt;.mp4"), (b"two", "&lt;two&gt;.mp4"),
    ]  # fmt: skip
    assert '<td class="words">v3</td>' in found and "from the middle of its clip" in found
    bare = page({})
    assert f'<td class="words">{short}</td>' in bare and "<img" not in bare and "from the middle" not in bare


@pytest.mark.skipif(shutil.which("chromium") is None, reason="Chromium is not installed")
def test_no_table_scrolls_on_a_laptop(tmp_path: Path) -> None:
    (tmp_path / "p.html").write_text(page({"v1": b"one", "v2": b"two"}))
    (tmp_path / "laptop.html").write_text(f"<body>{LAPTOP}</body>")
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    done = subprocess.run(
        [*command, "--allow-file-access-from-files", "--virtual-time-budget=8000", "--dump-dom",
         f"file://{tmp_path}/laptop.html"],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert "<title>0 0 0 0 0 0</title>" in done.stdout, done.stdout[:500]
