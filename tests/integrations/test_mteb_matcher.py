"""Matchers of random weights through MTEB's own harness, beside the same pairs scored one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mteb
import numpy as np
import pytest
import torch

from evenreel.checkpoint import About, EncoderNote, Inputs, MatcherSpec, Pretrained, save_pretrained
from evenreel.checkpoint.architecture import build, module
from evenreel.evaluation import EvaluationSettings, evaluate
from evenreel.integrations.mteb import load_model, load_predictions, task_corpus
from evenreel.matchers import TextBatch, VideoBatch
from evenreel.types import Encoder, Scores
from tests.integrations.test_mteb import COUNT, METRICS, encoder, films, pictures, task_of

__all__ = ["encoder", "films"]

FRAMES = (0, 2, 4)
"""The middles of three intervals of five frames."""


def matcher_of(name: str, encoder: Encoder, **about: Any) -> Pretrained:
    """A matcher whose every weight was moved from where it starts, as training does."""
    torch.manual_seed(3)
    spec = MatcherSpec(name)
    matcher = build(spec, encoder.dimension)
    with torch.no_grad():
        for parameter in module(matcher).parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    module(matcher).eval()
    note = EncoderNote(encoder.encoder_id, encoder.weights_hash, encoder.dimension)
    return Pretrained(matcher, spec, About(note, Inputs(frames=12, words=32, rule="3 midpoints"), **about))


def one_by_one(pretrained: Pretrained, encoder: Encoder, texts: list[str]) -> np.ndarray[Any, Any]:
    """Scores of each text with each film: a batch of one each, from features as they are stored, in float16."""

    def stored(values: np.ndarray[Any, Any]) -> torch.Tensor:
        return torch.as_tensor(values.astype(np.float16).astype(np.float32))

    matcher, scores = pretrained.matcher, np.zeros((len(texts), COUNT))
    read = encoder.encode_text(texts)
    for row in range(len(texts)):
        words = stored(read.words[row][read.word_mask[row]])[None]
        mask = torch.ones(words.shape[:2], dtype=torch.bool)
        asked = TextBatch(("c",), words, mask, stored(read.sentence[row])[None])
        for film in range(COUNT):
            stack = np.stack(pictures(film))[list(FRAMES)].transpose(0, 3, 1, 2)
            frames = stored(encoder.encode_windows(stack[:, None]))[None]
            shown = VideoBatch(("v",), frames, torch.ones(1, 3, dtype=torch.bool), torch.tensor([[0.1, 0.5, 0.9]]))
            with torch.inference_mode():
                scores[row, film] = float(matcher.score(matcher.encode_text(asked), matcher.encode_video(shown)))
    return scores


@pytest.mark.parametrize(("direction", "name"), [("t2v", "x_pool"), ("v2t", "wti")])
def test_a_matcher_in_mteb_has_its_true_scores(
    direction: str, name: str, encoder: Encoder, films: list[Path], tmp_path: Path
) -> None:
    pretrained = matcher_of(name, encoder)
    save_pretrained(tmp_path / "checkpoint", pretrained)
    model = load_model(tmp_path / "checkpoint", device="cpu", folder=tmp_path / "features")
    task = task_of(direction, films)
    done = mteb.evaluate(
        model, task, cache=None, prediction_folder=tmp_path, co2_tracker=False, show_progress_bar=False
    )
    theirs = done.task_results[0].scores["test"][0]
    corpus = task_corpus(task)
    texts = corpus.captions["text"].to_list()
    values = one_by_one(pretrained, encoder, texts)
    assert np.abs(values - np.stack([values.mean(axis=0)] * COUNT)).max() > 1e-3  # texts differ
    scores = Scores(values, corpus.captions["caption_id"].to_list(), corpus.clips["clip_id"].to_list())
    settings = EvaluationSettings(tuple(METRICS.values()), directions=(direction,))  # type: ignore[arg-type]
    ours = evaluate(scores, corpus, settings).directions[direction].summary  # type: ignore[index]
    for metric, word in METRICS.items():
        # MTEB rounds some of them to five decimals before anyone sees them.
        assert theirs[metric] in (
            pytest.approx(ours[word].value / 100, abs=1e-6),
            pytest.approx(round(ours[word].value / 100, 5), abs=1e-9),
        ), metric
    assert 0 < ours["MRR"].value < 100
    (path,) = tmp_path.glob("**/*_predictions.json")
    predicted = load_predictions(path, corpus)
    np.testing.assert_allclose(predicted.block(slice(0, COUNT), slice(0, COUNT)), values, atol=1e-6)
