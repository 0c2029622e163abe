"""What is said, written: other parsers read what was meant, and so do we."""

from __future__ import annotations

from pathlib import Path

import srt
import webvtt
from hypothesis import given
from hypothesis import strategies as st

from evenreel.speech import Utterance, parse_subtitles
from evenreel.speech.subtitles import as_srt, as_text, as_vtt

SAID = (
    Utterance("Good morning, {all} of <you> & me --> here", 0.2, 3599.9996, "sidecar", "en", speaker="Ann & Bob"),
    Utterance("次の駅", 3600.0, 3601.25, "stream"),
    Utterance("12", 3601.25, 3601.25, "sidecar", speaker="Ann & Bob"),
)


def test_subrip_is_what_another_parser_reads() -> None:
    found = [(c.index, c.start.total_seconds(), c.end.total_seconds(), c.content) for c in srt.parse(as_srt(SAID))]
    assert found == [
        (1, 0.2, 3600.0, "Ann & Bob: Good morning, {all} of <you> & me -> here"),
        (2, 3600.0, 3601.25, "次の駅"),
        (3, 3601.25, 3601.25, "Ann & Bob: 12"),
    ]


def test_webvtt_is_what_another_parser_reads(tmp_path: Path) -> None:
    (tmp_path / "said.vtt").write_text(as_vtt(SAID), encoding="utf-8")
    found = [(one.start, one.end, one.voice, one.text) for one in webvtt.read(str(tmp_path / "said.vtt")).captions]
    assert found == [
        ("00:00:00.200", "01:00:00.000", "Ann &amp; Bob", "Good morning, {all} of &lt;you&gt; &amp; me --&gt; here"),
        ("01:00:00.000", "01:00:01.250", None, "次の駅"),
        ("01:00:01.250", "01:00:01.250", "Ann &amp; Bob", "12"),
    ]


def test_text_names_a_speaker_once_for_what_is_said_in_a_row() -> None:
    said = [Utterance(words, 0.0, 1.0, "sidecar", speaker=who) for words, who in (("a", "A"), ("b", "A"), ("c", None))]
    assert as_text([*said, Utterance("d", 0.0, 1.0, "sidecar", speaker="A")]) == "A: a\nb\nc\nA: d\n"
    assert as_text([]) == ""


@given(st.lists(st.tuples(st.integers(0, 10**7), st.integers(0, 9_999), st.text(max_size=30)), min_size=1, max_size=6))
def test_what_is_written_is_read_again(spoken: list[tuple[int, int, str]]) -> None:
    kept = {(start, start + length, f"x{start} " + " ".join(words.split())) for start, length, words in spoken}
    kept = {one for one in kept if one[2].isprintable()}
    said = [Utterance(words.strip(), start / 1000, end / 1000, "sidecar", "en") for start, end, words in sorted(kept)]
    if said:
        read = parse_subtitles(as_vtt(said).encode(), ".vtt", "en").utterances
        assert sorted(read, key=repr) == sorted(said, key=repr)
