"""TCD as it is after a short training on planted clips that differ in nothing but the words on their signs."""

from __future__ import annotations

from pathlib import Path

from evenreel.checkpoint import About, EncoderNote, Inputs, Pretrained, save_pretrained
from evenreel.corpus import select
from evenreel.encoders import load_encoder
from evenreel.matchers.adapter import AdapterSettings
from evenreel.planted import PlantedCorpus, corpus_of, plan_corpus, text_features, video_features
from evenreel.training.batches import FeatureExamples, TrainingInputs, pairs_of
from evenreel.training.loop import train
from evenreel.training.recipe import Data, Loop, MatcherChoice, Optimiser, Recipe, Records

FRAMES, STEPS = 6, 30
RULE = f"{FRAMES} midpoints"


def signs_plan() -> PlantedCorpus:
    """160 clips in groups of four; captions name the word."""
    return plan_corpus("scene_text", 1.0, 160, 0)


def train_tcd(folder: Path) -> Path:
    """A checkpoint for libraries of the built-in encoder, in some fifteen seconds."""
    encoder, clips = load_encoder("builtin", device="cpu"), signs_plan().split("train")
    texts, videos = text_features(clips, encoder), video_features(clips, encoder, RULE)
    recipe = Recipe(
        name="planted-tcd",
        data=Data(corpus="planted", features="planted", validation=None),
        matcher=MatcherChoice("tcd", {}),
        adapter=AdapterSettings(kind="mlp"),
        optimiser=Optimiser(lr=1e-3, weight_decay=0.05),
        loop=Loop(batch_size=64, epochs=None, steps=STEPS, seed=0, device="cpu"),
        records=Records(every_steps=STEPS, tensorboard=False),
    )
    pairs = pairs_of(select(corpus_of(signs_plan()), split="train"), texts.ids, videos.ids)
    done = train(recipe, TrainingInputs(FeatureExamples(pairs, texts, videos), encoder.dimension), folder / "run")
    note = EncoderNote(encoder.encoder_id, encoder.weights_hash, encoder.dimension)
    about = About(note, Inputs(frames=FRAMES, words=32, windows=FRAMES))
    save_pretrained(folder / "checkpoint", Pretrained(done.matcher, done.spec, about))
    return folder / "checkpoint"
