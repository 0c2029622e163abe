"""What is loaded is what was saved: every matcher, wrapped or not, its provenance, and the towers beside it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch

from evenreel import files as files_module
from evenreel.checkpoint import About, Inputs, MatcherSpec, load_matcher, save_pretrained
from evenreel.checkpoint.architecture import build, encodings, module
from evenreel.debias.frame_length import prior_weights
from evenreel.encoders import load_encoder
from evenreel.encoders.checkpoint import open_checkpoint
from evenreel.encoders.towers import load_towers
from evenreel.errors import CheckpointError, UsageError
from evenreel.features.word_changes import WordChanges
from evenreel.matchers import MATCHERS
from tests.tiny_checkpoints import tiny_clip, tiny_siglip

from .conftest import ENCODER, scores, trained

SMALL = {
    **{"heads": 2, "weight_layers": 1, "max_frames": 3, "max_words": 6, "layers": 1, "temporal_layers": 1},
    **{
        "size": 8,
        "word_size": 4,
        "vocabulary": ("red", "ball"),
        "entities": ("a dog", "grass"),
        "activities": ("run",),
    },
}


def small(name: str) -> MatcherSpec:
    """A matcher with the settings of `SMALL` that it has."""
    known = MATCHERS[name].settings.__dataclass_fields__
    return MatcherSpec(name, {key: value for key, value in SMALL.items() if key in known})


@pytest.mark.parametrize("name", MATCHERS)
def test_a_loaded_matcher_scores_bit_by_bit_as_the_saved(name: str, tmp_path: Path) -> None:
    before = trained(small(name))
    written = save_pretrained(tmp_path / name, before)
    after = load_matcher(tmp_path / name)
    assert torch.equal(scores(after), scores(before))
    assert after.spec == written.spec
    assert dict(after.spec.settings).keys() == MATCHERS[name].settings.__dataclass_fields__.keys()
    assert after.about == before.about
    assert not module(after.matcher).training


@pytest.mark.parametrize("settings", [{}, {"kind": "mlp"}, {"kind": "mlp", "shared": True}])
def test_so_does_a_wrapped_one(settings: dict[str, object], tmp_path: Path) -> None:
    before = trained(MatcherSpec("adapted", settings, (small("temporal"),)))
    save_pretrained(tmp_path / "adapted", before)
    after = load_matcher(str(tmp_path / "adapted"))
    assert torch.equal(scores(after), scores(before))
    assert [inner.name for inner in after.spec.wrapped] == ["temporal"]


@pytest.mark.parametrize(("name", "settings"), [("without_length", {"terms": 2}), ("without_habits", {"beyond": 3.0})])
def test_what_was_measured_is_saved_with_the_matcher(name: str, settings: dict[str, object], tmp_path: Path) -> None:
    """What lengths explain, and the directions of habits, are no parameters."""
    before = trained(MatcherSpec(name, settings, (small("mean_pool"),)))
    for buffer in module(before.matcher).buffers():
        torch.nn.init.uniform_(buffer, 0.5, 2.0)
    save_pretrained(tmp_path / "saved", before)
    after = load_matcher(tmp_path / "saved")
    assert after.spec.settings == settings
    assert torch.equal(scores(after), scores(before))


def ensemble(*specs: MatcherSpec) -> MatcherSpec:
    """With weights that a sum of rounded ones would not give."""
    weights = prior_weights(range(1, len(specs) + 1))
    return MatcherSpec("ensemble", {"weights": weights, "scales": (0.3,) * len(specs)}, specs)


@pytest.mark.parametrize("name", MATCHERS)
def test_so_do_matchers_for_strata(name: str, tmp_path: Path) -> None:
    """An ensemble of an adapted matcher and of an ensemble, whose weights are thirds."""
    one = small(name)
    before = trained(ensemble(MatcherSpec("adapted", {}, (one,)), ensemble(one, one)))
    written = save_pretrained(tmp_path / "strata", before)
    after = load_matcher(tmp_path / "strata")
    assert torch.equal(scores(after), scores(before))
    assert after.spec == written.spec
    assert after.spec.settings["weights"] == (1 / 3, 2 / 3)


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (MatcherSpec("ensemble", {"weights": (1.0,)}), r"ensemble goes around at least one matcher, not 0"),
        (MatcherSpec("ensemble", {"weights": (0.5, 0.5)}, (small("wti"),)), r"An ensemble of 1 matchers has 2 weights"),
        (MatcherSpec("ensemble", {}, (small("wti"),)), r"weights of the fusion is \(\); it must be a list"),
        (
            MatcherSpec("ensemble", {"shares": 1}, (small("wti"),)),
            r"no setting 'shares'; it has means, scales, weights",
        ),
    ],
)
def test_matchers_for_strata_that_cannot_be_built(spec: MatcherSpec, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        build(spec, 16)


def test_what_they_cost_is_known() -> None:
    one = small("wti")
    assert encodings(one) == 1
    assert encodings(MatcherSpec("adapted", {}, (one,))) == 1
    assert encodings(ensemble(one, one, ensemble(one, one))) == 4


def test_a_default_that_changes_later_does_not_change_a_saved_matcher(saved: Path) -> None:
    """Every setting is in the file, also those that nobody set."""
    written = json.loads((saved / "config.json").read_text())["matcher"]
    assert written["settings"].keys() == MATCHERS["temporal"].settings.__dataclass_fields__.keys()


def test_where_it_comes_from_is_kept(saved: Path) -> None:
    about = load_matcher(saved).about
    assert about.encoder == ENCODER
    assert (about.inputs.frames, about.inputs.words, about.inputs.rule) == (12, 32, "x_pool 12")
    assert about.metrics[0].low == 41.3
    assert about.metrics[1].low is None
    assert about.limits == ("It has seen no film.",)


def test_what_was_done_to_words_is_kept(tmp_path: Path) -> None:
    changes = WordChanges(0.4, "window", 0.05, seed=2, splits="evaluated", empty="caption")
    about = About(ENCODER, Inputs(windows=12, words_from="ocr", word_changes=changes))
    save_pretrained(tmp_path / "changed", trained(MatcherSpec("mean_pool"), about))
    assert load_matcher(tmp_path / "changed").about.inputs.word_changes == changes


def test_a_checkpoint_of_before_there_were_changed_words_is_read(saved: Path) -> None:
    path = saved / "config.json"
    data = json.loads(path.read_text())
    assert data["about"]["inputs"].pop("word_changes") is None
    path.write_text(json.dumps(data))
    assert load_matcher(saved).about.inputs.word_changes is None


def test_others_may_read_all_of_it(saved: Path) -> None:
    modes = {path.name: path.stat().st_mode for path in saved.iterdir()}
    assert len(set(modes.values())) == 1, modes


def test_saving_what_was_loaded_gives_the_same_bytes(saved: Path, tmp_path: Path) -> None:
    save_pretrained(tmp_path / "again", load_matcher(saved))
    for name in ("config.json", "model.safetensors", "README.md"):
        assert (tmp_path / "again" / name).read_bytes() == (saved / name).read_bytes()


def test_training_goes_on_after_loading(saved: Path) -> None:
    matcher = module(load_matcher(saved).matcher)
    assert all(parameter.requires_grad for parameter in matcher.parameters())


# The towers beside it


@pytest.mark.parametrize("tiny", [tiny_clip, tiny_siglip])
def test_trained_towers_are_saved_as_a_model_of_their_own(
    tiny: object, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source = tiny(tmp_path / "source")  # type: ignore[operator]
    towers = load_towers(open_checkpoint(source), torch.device("cpu"), "float32")
    with torch.no_grad():
        for parameter in towers.model.parameters():
            parameter.add_(0.01 * torch.randn_like(parameter))
    about = About(ENCODER.__class__("org/tiny", "00" * 32, towers.dimension))
    before = trained(MatcherSpec("mean_pool"), about)
    capfd.readouterr()
    written = save_pretrained(tmp_path / "both", before, towers)
    assert capfd.readouterr() == ("", "")
    encoder = load_encoder(str(tmp_path / "both" / "encoder"))
    assert written.about.encoder.weights_hash == encoder.weights_hash
    assert written.about.encoder.weights_hash != load_encoder(str(source)).weights_hash
    assert written.about.encoder.id == "org/tiny"
    assert written.about.encoder.before == "00" * 32 == load_matcher(tmp_path / "both").about.encoder.before
    assert load_matcher(tmp_path / "both").about.encoder == written.about.encoder
    with pytest.raises(CheckpointError, match=r"trained further from org/tiny; save them with it"):
        save_pretrained(tmp_path / "alone", load_matcher(tmp_path / "both"))
    own = load_towers(open_checkpoint(tmp_path / "both" / "encoder"), torch.device("cpu"), "float32")
    assert save_pretrained(tmp_path / "again", load_matcher(tmp_path / "both"), own).about == written.about
    foreign = load_towers(open_checkpoint(source), torch.device("cpu"), "float32")
    with pytest.raises(CheckpointError, match=r"not those whose features .* of org/tiny without what it was before"):
        save_pretrained(tmp_path / "wrong", load_matcher(tmp_path / "both"), foreign)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again", "both", "source"]
    for name, parameter in towers.model.state_dict().items():
        assert torch.equal(encoder._towers.model.state_dict()[name], parameter)
    assert encoder.encode_text(["a red ball"]).sentence.shape == (1, towers.dimension)


# Whole or not at all


def test_an_earlier_checkpoint_is_replaced(saved: Path) -> None:
    save_pretrained(saved, trained(MatcherSpec("mean_pool")))
    assert load_matcher(saved).spec.name == "mean_pool"
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


def test_a_folder_with_other_things_is_left_alone(saved: Path) -> None:
    (saved / "notes.txt").write_text("mine")
    with pytest.raises(CheckpointError, match=r"holds other things \(notes.txt\)"):
        save_pretrained(saved, trained(MatcherSpec("mean_pool")))
    assert load_matcher(saved).spec.name == "temporal"


def test_a_disk_that_fails_leaves_the_earlier_checkpoint(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files_module, "sync_file", full)
    with pytest.raises(CheckpointError, match="cannot be written: No space left on device"):
        save_pretrained(saved, trained(MatcherSpec("mean_pool")))
    assert load_matcher(saved).spec.name == "temporal"
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


def test_a_folder_that_cannot_take_its_place_gives_it_back(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename = Path.rename

    def refuse(self: Path, target: Path) -> Path:
        if target == saved and (self / "config.json").is_file() and "mean_pool" in (self / "config.json").read_text():
            raise OSError(5, "Input/output error")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(CheckpointError, match="Input/output error"):
        save_pretrained(saved, trained(MatcherSpec("mean_pool")))
    assert load_matcher(saved).spec.name == "temporal"


def test_every_file_is_synced_before_the_folder_takes_its_name(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    sync_file, rename = files_module.sync_file, Path.rename
    monkeypatch.setattr(files_module, "sync_file", lambda path: (events.append(path.name), sync_file(path)))
    monkeypatch.setattr(Path, "rename", lambda self, to: (events.append(f"to {to.name}"), rename(self, to))[1])
    save_pretrained(saved.with_name("new"), load_matcher(saved))
    assert events == ["README.md", "config.json", "model.safetensors", "to new"]


def test_a_matcher_that_is_not_its_spec_is_not_saved(tmp_path: Path) -> None:
    from dataclasses import replace

    before = replace(trained(small("temporal")), spec=MatcherSpec("mean_pool"))
    with pytest.raises(CheckpointError, match=r"not what its spec \(mean_pool\) builds: they differ in transformer"):
        save_pretrained(tmp_path / "wrong", before)
    assert os.listdir(tmp_path) == []
