"""Sections of a recipe as typed settings: everything that can be set for a training run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from evenreel.features.word_changes import WordChanges


@dataclass(frozen=True)
class Data:
    """Settings of the captions and clips to train on.

    Attributes:
        corpus: folder of the corpus (`evenreel corpus import`).
        features: folder of features of its clips and captions, computed once (`evenreel features`); null where the
            towers run in training, see `Backbone`.
        videos: folder that the paths of the clips start from; null for the folder of the corpus.
        train: split that is trained on.
        validation: split that the model is selected on; null where none is.
        held_out: share of the videos of `train` that is kept out of it for selection, for corpora without a split of
            their own for it; 0 for none. Clips of one video stay together.
        generated_share: share of the real training clips that are replaced by the generated clips that mirror them,
            which take their captions; 0 for none. Mirrors are used for nothing else but `debias`.
        generated_group: group of mirrors to use, by their generator and its setting; null for the only one that there
            is.
        streams: names of the streams of stored features to use; empty for all of them.
        pretrained_features: folder of features by the backbone's towers as they are before training, for a matcher that
            selects scene elements by these; null where `features` are used.
        on_screen: folder of features, by any encoder and the backbone's rule, whose on-screen text the backbone's text
            tower reads in training; null for none, and where `features` are used, which have their own.
        words: changes of the words of on-screen text, to find out how much a matcher needs them; null for none.
    """

    corpus: str
    features: str | None = None
    videos: str | None = None
    train: str = "train"
    validation: str | None = "val"
    held_out: float = 0.0
    generated_share: float = 0.0
    generated_group: str | None = None
    streams: tuple[str, ...] = ()
    pretrained_features: str | None = None
    on_screen: str | None = None
    words: WordChanges | None = None


@dataclass(frozen=True)
class Backbone:
    """Settings of towers that run in training, from pixels and words.

    Attributes:
        model: towers to train (docs/encoders.md): `builtin`, a hub id or a folder.
        train: train the weights of the towers too; false: they stay as they are.
        frozen: patterns of the names, in the checkpoint, of parameters that are not trained, such as
            `vision_model.embeddings.*`.
        rule: rule that samples the frames of a clip, in the words of `evenreel.media.parse_rule`.
        max_words: greatest number of tokens of a caption, its marks for start and end included; longer ones are cut.
        augment: `none`; `crop`: one random part of 0.5 to 1 of the picture's area for all frames of a clip, resized to
            what the tower takes; `crop_and_flip`: also mirrored half of the time, which swaps left and right.
        gradient_checkpointing: compute the towers' layers a second time for gradients instead of keeping them in
            memory.
    """

    model: str
    train: bool = True
    frozen: tuple[str, ...] = ()
    rule: str = "12 midpoints"
    max_words: int = 77
    augment: Literal["none", "crop", "crop_and_flip"] = "none"
    gradient_checkpointing: bool = False


@dataclass(frozen=True)
class MatcherChoice:
    """Name and settings of the retrieval model.

    Attributes:
        name: a key of `evenreel.matchers.MATCHERS`.
        settings: fields of its settings class that differ from the defaults.
    """

    name: str
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Trim:
    """Settings of leaving out training clips until each class is as long as in another split (RmvAll).

    Attributes:
        rule: `all`: leave out the shortest or the longest clips of every class; `random`: leave out as many clips,
            drawn whatever their length (RmvRand).
        margin: delta, in frames (in seconds where the corpus has no frames): classes nearer than this stay.
        least: alpha, number of clips that a class keeps at least.
        target: split whose mean lengths classes are trimmed to; null for the one that the model is selected on. Another
            split is one that no training should know, and the checkpoint and all its scores say so.
    """

    rule: Literal["all", "random"] = "all"
    margin: float = 60.0
    least: int = 20
    target: str | None = None


@dataclass(frozen=True)
class Members:
    """Settings of several trainings that become one matcher (frame-length bias, backdoor adjustment).

    Attributes:
        by: `length`: each is trained on the clips of one stratum of length; `seed`: each on all of them, with another
            seed, which is the plain ensemble.
        count: number M of members.
        split: how lengths are divided: `equal` counts of clips, `adjusted` (algorithm 2), or at `thresholds`; `random`
            draws strata without a look at lengths, by `loop.seed`, which is the control of the others.
        fraction: for `adjusted` and `random`, the share of the first of the last two strata; null: for `adjusted` that
            of the clips that are shorter than the mean of the training clips, for `random` strata of equal size.
        thresholds: M - 1 lengths, ascending.
        longest_first: for `adjusted`, begin with the long clips.
        only: number of the one stratum, from 1, that is trained; null for all.
        fusion: weights of the scores: `prior`, the share of the clips in each stratum (equation 5); `uniform`;
            `learned`: on the validation split.
        standardise: bring the scores of each member to mean 0 and deviation 1 over the validation split first.
        begin: `fresh` weights, or those of a training on all clips (`full`), which the paper calls a failure.
        steps: steps of each stratum's training: its `share` of those of a training on all clips, so that all strata
            together cost as much as that, as in the paper; or as many as that takes (`full`).
        at_once: number of members that are trained at a time, each in a process of its own.
    """

    by: Literal["length", "seed"] = "length"
    count: int = 2
    split: Literal["equal", "adjusted", "thresholds", "random"] = "adjusted"
    fraction: float | None = None
    thresholds: tuple[float, ...] = ()
    longest_first: bool = False
    only: int | None = None
    fusion: Literal["prior", "uniform", "learned"] = "prior"
    standardise: bool = False
    begin: Literal["fresh", "full"] = "fresh"
    steps: Literal["share", "full"] = "share"
    at_once: int = 1


@dataclass(frozen=True)
class GalleryLikeness:
    """Settings of drawing clips more often the more they resemble those that will be searched.

    See `evenreel.debias.likeness`. Nothing but the frames of the searched clips is used.

    Attributes:
        split: split of the searched clips; null for all of `corpus`.
        corpus: folder of a corpus that has them; null for that of `data`.
        features: folder of their features, by the encoder of the training features; null for these.
    """

    split: str | None = "test"
    corpus: str | None = None
    features: str | None = None


@dataclass(frozen=True)
class BackgroundExchange:
    """Settings of giving clips the backgrounds of other clips (`evenreel.debias.backgrounds`).

    Attributes:
        clusters: number of kinds of backgrounds, found without labels.
        share: probability that a clip gets the background of another clip of its batch, anew in every batch.
    """

    clusters: int = 100
    share: float = 1.0


@dataclass(frozen=True)
class Optimiser:
    """Settings of AdamW (decoupled weight decay, arXiv 1711.05101).

    Attributes:
        lr: peak learning rate of the matcher's parameters.
        backbone_lr: peak learning rate of the towers' parameters.
        logit_scale_lr: peak learning rate of the logit scale; null for `lr`. It is part of CLIP, so many papers give it
            the rate of the backbone.
        betas: decay of the averages of the gradient and of its square.
        eps: added to the root of the latter; more than 0, since a weight without a gradient has a root of 0.
        weight_decay: share that weights lose each step, times the learning rate.
        exempt: patterns of the names of parameters that do not decay.
    """

    lr: float = 1e-4
    backbone_lr: float = 1e-7
    logit_scale_lr: float | None = None
    betas: tuple[float, float] = (0.9, 0.98)
    eps: float = 1e-6
    weight_decay: float = 0.2
    exempt: tuple[str, ...] = ("*bias", "*norm*", "*logit_scale")


@dataclass(frozen=True)
class Schedule:
    """Schedule of the learning rates over steps; see `evenreel.training.loop.optimiser.rate_share`.

    Attributes:
        form: `cosine`: from the peak after warm-up down to 0; `bert_adam`: the cosine of BertAdam, which the code of
            CLIP4Clip uses: it does not wait for the end of the warm-up, so the rate falls at once by a little when
            that ends; `constant`: the peak after warm-up.
        warmup: share of all steps in which the rate rises linearly from 0.
    """

    form: Literal["cosine", "bert_adam", "constant"] = "cosine"
    warmup: float = 0.1


@dataclass(frozen=True)
class Loop:
    """Settings of the length of the training, the size of batches, and devices.

    Attributes:
        batch_size: number of captions, each with its clip, in a batch, on all devices together; a caption's negatives
            are the other clips of its batch.
        epochs: number of epochs, in each of which every caption is used once; null where `steps` is set. Captions that
            do not fill a batch at the end of an epoch are left out of it.
        steps: number of optimiser steps; null where `epochs` is set.
        accumulate: number of batches whose gradients are averaged to one step; more of them do not mean more negatives.
        gradient_clip: largest length of the gradient of all parameters; 0 for no limit.
        precision: `float32`, or `bfloat16` where it is safe, with weights in float32.
        device: `auto`, `cpu` or `cuda`.
        devices: number of devices; each computes its part of the batch.
        workers: number of processes that decode clips; 0: in the training process. Features need none.
        seed: seed of every random choice.
        deterministic: on a GPU use only operations that give equal bytes in every run, which is slower. On a CPU they
            always do.
    """

    batch_size: int = 128
    epochs: int | None = 5
    steps: int | None = None
    accumulate: int = 1
    gradient_clip: float = 1.0
    precision: Literal["float32", "bfloat16"] = "float32"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    devices: int = 1
    workers: int = 0
    seed: int = 0
    deterministic: bool = False


@dataclass(frozen=True)
class Selection:
    """Settings of selecting the best weights of the model on the validation split.

    Attributes:
        metric: metric of text-to-video search to select by, as `evenreel evaluate` names it: `R@1`, `Rsum`, `MedR`,
            `nDCG`, ...
        relevance: what answers a caption: `clip`, `text`, `classes` or `classes-iou`, as in `evenreel evaluate`.
        per_epoch: number of evaluations an epoch; the last step is always evaluated.
        every_steps: steps from one evaluation to the next; null where `per_epoch` is used.
        patience: number of evaluations in a row without a better one after which training stops early; null for never.
    """

    metric: str = "R@1"
    relevance: Literal["clip", "text", "classes", "classes-iou"] = "clip"
    per_epoch: int = 1
    every_steps: int | None = None
    patience: int | None = None


@dataclass(frozen=True)
class Records:
    """Settings of what a run records beside its checkpoints and metrics.csv.

    Attributes:
        every_steps: steps from one line of the losses and rates to the next; null: so many that a run has about 200.
        save_every_steps: steps from one checkpoint for resuming to the next; null: as often as is evaluated.
        tensorboard: write a log for TensorBoard.
        wandb: project of Weights & Biases to log to (`pip install wandb`); null for none.
    """

    every_steps: int | None = None
    save_every_steps: int | None = None
    tensorboard: bool = True
    wandb: str | None = None
