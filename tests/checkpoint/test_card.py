"""The model card says what the checkpoint is, and its head is what the hub reads."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from huggingface_hub import ModelCard

from evenreel.checkpoint import About, EncoderNote, Inputs, MatcherSpec, save_pretrained
from evenreel.checkpoint.folder import model_card
from evenreel.checkpoint.records import Config
from evenreel.features.word_changes import WordChanges

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
        "**It was trained with class lengths of the split test**: what it finds there is not to be compared",
        "\n- Left out for their length: 2 of 6 clips.\n",
        "## Recipe\n\nThe settings of the paper.\n\n```yaml\nname:",
        "features CORPUS --model openai/clip-vit-base-patch32@c237dc49 --rule 'x_pool 12' --no-ocr --out FEATURES",
        "--rerank CHECKPOINT",
        'evenreel.load_matcher("CHECKPOINT")',
        "- It has seen no film.",
    ):
        assert part in card, part


def card_of(note: EncoderNote, inputs: Inputs) -> str:
    return model_card(Config(MatcherSpec("mean_pool"), About(note, inputs), ""))


def test_commands_can_be_pasted() -> None:
    """A model's folder and a rule are one word each for a shell, and whose words are on screen is asked for."""
    card = card_of(EncoderNote("/my models/it's", "00" * 32, DIMENSION), Inputs(rule="2 midpoints", windows=4))
    commands = [shlex.split(line) for line in card.splitlines() if line.startswith("evenreel ")]
    assert ["evenreel", "index", "VIDEOS", "--library", "LIBRARY", "--model", "/my models/it's"] in commands
    features = ["evenreel", "features", "CORPUS", "--model", "/my models/it's", "--rule", "2 midpoints"]
    assert [*features, "--windows", "4", "--out", "FEATURES"] in commands
    assert "the on-screen text of 4 windows." in card


@pytest.mark.parametrize(
    ("source", "said", "asked"),
    [("corpus", "(words of the corpus)", " --words corpus --out"), ("ocr", "(read in the frames)", " --out")],
)
def test_it_says_where_on_screen_text_was_from(source: str, said: str, asked: str) -> None:
    card = card_of(EncoderNote("builtin", "00" * 32, DIMENSION), Inputs(windows=4, words_from=source))
    assert f"the on-screen text of 4 windows {said}." in card
    assert f"evenreel features CORPUS --model builtin --windows 4{asked} FEATURES" in card


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (WordChanges(0.4, seed=1), ["It was trained and is scored with 40 % of the on-screen words (seed 1)."]),
        (
            WordChanges(char_errors=0.1, splits="evaluated", empty="caption"),
            [
                "It was selected and is scored with on-screen words with 10 % of their characters misread (seed 0).",
                "A window without text says `There is no scene text in this frame.`",
            ],
        ),
        (None, []),
    ],
)
def test_it_says_what_was_done_to_words(changes: WordChanges | None, said: list[str]) -> None:
    card = card_of(EncoderNote("builtin", "00" * 32, DIMENSION), Inputs(windows=4, word_changes=changes))
    matcher = card[card.index("Trained on") : card.index("## Training")].strip().splitlines()
    assert matcher[1:] == ["and the on-screen text of 4 windows.", *said]


def test_it_says_what_several_matchers_cost() -> None:
    wti = MatcherSpec("wti", {"kind": "ti"})
    note = EncoderNote("builtin", "00" * 32, DIMENSION)
    single, several = (
        model_card(Config(spec, About(note), ""))
        for spec in (
            wti,
            MatcherSpec("ensemble", {"weights": (0.7, 0.2, 0.1)}, (wti, wti, MatcherSpec("x_pool"))),
        )
    )
    assert "encoded" not in single
    assert "# ensemble (2 x wti, x_pool) for text-to-video retrieval" in several
    assert '| ensemble | weights | [0.7, 0.2, 0.1] |\n| 2 x wti | kind | "ti" |\n| x_pool |' in several
    assert "Each video is encoded 3 times and a gallery keeps 3 states of it: 3\ntimes the time" in several


def test_towers_of_a_checkpoint_on_the_hub_have_to_be_fetched() -> None:
    fetch = "`hf download org/name --local-dir CHECKPOINT`"
    assert fetch in card_of(EncoderNote("builtin", "00" * 32, DIMENSION, before="11" * 32), Inputs())
    assert fetch not in card_of(EncoderNote("builtin", "00" * 32, DIMENSION), Inputs())


def test_one_that_asks_for_towers_before_training_says_so_and_names_no_library() -> None:
    """`score` asks for `--pretrained-features`; a library has one encoder, so `--rerank` would be refused."""
    note = EncoderNote("org/tiny", "00" * 32, DIMENSION, before="11" * 32)
    config = Config(MatcherSpec("mean_pool"), About(note, Inputs(rule="2 midpoints", windows=4)), "")
    card = model_card(config, needs_pretrained=True)
    assert "evenreel features CORPUS --model org/tiny --rule '2 midpoints' --no-ocr --out PRETRAINED\n" in card
    assert (
        "evenreel score CHECKPOINT CORPUS --features FEATURES --pretrained-features PRETRAINED --out scores.npz" in card
    )
    assert "LIBRARY" not in card
    assert "library finds" not in card
    assert "LIBRARY" in model_card(config)


def test_one_that_was_not_trained_says_so(tmp_path: Path) -> None:
    about = About(EncoderNote("/home/someone/clip", "00" * 32, DIMENSION))
    save_pretrained(tmp_path / "new", trained(MatcherSpec("mean_pool"), about))
    card = (tmp_path / "new" / "README.md").read_text()
    assert "It was not trained." in card
    assert "like those of" not in card
    assert "## Recipe" not in card
    assert "Nothing was measured." in card
    assert "base_model" not in card  # a folder of this machine is none


def test_a_vocabulary_is_not_written_out() -> None:
    spec = MatcherSpec("hgr", {"vocabulary": tuple(f"word{number}" for number in range(2000)), "size": 8})
    card = model_card(Config(spec, About(EncoderNote("org/tiny", "00" * 32, DIMENSION)), "00"))
    assert "| hgr | vocabulary | 2,000 words |\n| hgr | size | 8 |" in card
    assert "word1" not in card
    assert "against a video from the words as they stand\nand the features of frames." in card
