"""The model card says what the checkpoint is, and its head is what the hub reads."""

from __future__ import annotations

from pathlib import Path

from huggingface_hub import ModelCard

from evenreel.checkpoint import About, MatcherSpec, save_pretrained
from evenreel.checkpoint.records import EncoderNote

from .conftest import DIMENSION, trained


def test_the_head_is_valid_for_the_hub(saved: Path) -> None:
    head = ModelCard.load(saved / "README.md").data
    assert head.library_name == "evenreel"
    assert head.license == "apache-2.0"
    assert head.base_model == "openai/clip-vit-base-patch32"
    assert "text-to-video-retrieval" in head.tags


def test_it_says_what_a_reader_asks(saved: Path) -> None:
    card = (saved / "README.md").read_text()
    for part in (
        "# temporal for text-to-video retrieval",
        "`openai/clip-vit-base-patch32@c237dc49`, features of 16 numbers",
        "0f" * 32,
        "| temporal | layers | 1 |",
        "at most 12 frames a clip (`x_pool 12`), at most 32 word features",
        "On `msrvtt-1ka`, split `train`.",
        "name: msrvtt-9k/temporal",
        "| R@1 t2v | 44.50 | 41.30 to 47.60 | msrvtt-1ka test | its own clip | caption and video alone |",
        "| nDCG t2v | 62.00 | not measured | msrvtt-1ka test | clips of its verb and nouns, by degrees | a bank |",
        "- For sentences and videos like those of `msrvtt-1ka`.",
        "## Recipe\n\nThe settings of the paper.\n\n```yaml\nname:",
        "features CORPUS --model openai/clip-vit-base-patch32@c237dc49 --rule 'x_pool 12' --no-ocr --out FEATURES",
        "--rerank CHECKPOINT",
        'evenreel.load_matcher("CHECKPOINT")',
        "- It has seen no film.",
    ):
        assert part in card, part


def test_one_that_was_not_trained_says_so(tmp_path: Path) -> None:
    about = About(EncoderNote("/home/someone/clip", "00" * 32, DIMENSION))
    save_pretrained(tmp_path / "new", trained(MatcherSpec("mean_pool"), about))
    card = (tmp_path / "new" / "README.md").read_text()
    assert "It was not trained." in card
    assert "like those of" not in card
    assert "## Recipe" not in card
    assert "Nothing was measured." in card
    assert "base_model" not in card  # a folder of this machine is none
