"""Why do BiMa's parts do little about a planted bias? What is chosen, and what the bias of a caption holds.

    python -m benchmarks.bima_reasons [--seed 0] [--steps 500] [--clips 1500]

For the planted visual bias at strength 0.9: how many of the 20 entities and of the 20 activities of a test clip name
its shape and its background, in how many clips some do and in how many the first does; and g of equation 4, with which
an entity enters the element whose activity enters with 1. For both biases, after a training of the row `content` of
`benchmarks/bima.py`: the cosine of content and mu of the bias of a word, each less its mean over words, over 800
training captions; R@1 with mu in place of the content, and with mu of heads of random weights, which know nothing.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.bima import MAIN, Run, found_of, trained, world_elements
from benchmarks.planted import STRENGTH, Split, showing, split_of
from evenreel.encoders import load_encoder
from evenreel.features.scene_elements import embed, top_elements
from evenreel.matchers.batches import text_batch
from evenreel.matchers.bima.matcher import Bima, Reading, captions_read
from evenreel.matchers.matcher import Matcher
from evenreel.planted import BiasName, plan_corpus
from evenreel.planted.vocabulary import words_for
from evenreel.similarity.scene_elements import balance
from evenreel.types import Encoder

KAPPA = 20
CAPTIONS = 800
HEADS = 4
BIASES: tuple[BiasName, ...] = ("visual", "textual")
Kind = Literal["entities", "activities"]
KINDS: tuple[Kind, ...] = ("entities", "activities")


def main() -> None:
    """All lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="of the corpora and trainings")
    parser.add_argument("--steps", type=int, default=500, help="of each training")
    parser.add_argument("--clips", type=int, default=1_500, help="of all splits together")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    encoder = load_encoder("builtin")
    for bias in BIASES:
        plan = plan_corpus(bias, STRENGTH, asked.clips, asked.seed)
        learned, test = (split_of(plan, split, encoder) for split in ("train", "test"))
        if bias == "visual":
            for kind in KINDS:
                for attribute in ("shape", "background"):
                    print(chosen(kind, attribute, test, encoder))
            print(weights_of(test, encoder))
        matcher = trained(Run(bias, asked.seed, STRENGTH, "content", asked.clips, asked.steps), learned, encoder)
        print(f"{bias}: {held(matcher, learned, test)}", flush=True)


def chosen(kind: Kind, attribute: str, test: Split, encoder: Encoder) -> str:
    """How many of the entities, or activities, of clips name this of them."""
    elements = embed(world_elements(), encoder)
    found = top_elements(test.videos, elements, KAPPA)
    shown = dict(zip(*(test.corpus.clips[column] for column in ("clip_id", attribute)), strict=True))
    phrases: Sequence[str] = getattr(elements.dictionary, kind)
    naming = {value: np.array([named(one, attribute, value) for one in phrases]) for value in {*shown.values()}}
    rows = [naming[shown[clip]][places] for clip, places in zip(found.clip_ids, getattr(found, kind), strict=True)]
    of_all = np.mean([naming[value].mean() for value in shown.values()])
    said = np.array(rows)
    return (
        f"{100 * said.mean():.1f} % of the {KAPPA} {kind} of a clip name its {attribute}, {100 * of_all:.1f} % of the "
        f"dictionary's {len(phrases)}; in {100 * said.any(1).mean():.1f} % of the clips some do, in "
        f"{100 * said[:, 0].mean():.1f} % the first"
    )


def weights_of(test: Split, encoder: Encoder) -> str:
    """G of the elements of clips, by equation 4."""
    elements = embed(world_elements(), encoder)
    found = top_elements(test.videos, elements, KAPPA)
    vectors = [torch.from_numpy(getattr(elements, kind)[getattr(found, kind)]).float() for kind in KINDS]
    g = balance(*vectors)
    return f"g, the weight of an entity beside its activity's 1: {g.mean():.2f}, {g.min():.2f} to {g.max():.2f}"


def named(phrase: str, attribute: str, value: str) -> bool:
    """Whether a phrase has the last word of one of those for a value."""
    return bool({word.removesuffix("s") for word in phrase.split()} & set(last_words(words_for(attribute, value))))


def last_words(texts: Sequence[str]) -> list[str]:
    """In the singular."""
    return [text.split()[-1].removesuffix("s") for text in texts]


@torch.no_grad()
def held(matcher: Matcher, learned: Split, test: Split) -> str:
    """What the bias holds of the content, and what it and random heads find."""
    assert isinstance(matcher, nn.Module)
    [bima] = [part for part in matcher.modules() if isinstance(part, Bima)]
    assert bima.bias is not None
    found = found_with_bias(matcher, test)
    text = text_batch(learned.texts, np.arange(min(CAPTIONS, len(learned.texts.ids))))
    content = bima.words_of(text)[text.word_mask]
    mu = bima.bias(bima.scale * F.normalize(text.words, dim=-1)).mu[text.word_mask]
    cosine = F.cosine_similarity(content - content.mean(0), mu - mu.mean(0), dim=-1).mean().item()
    random = []
    for seed in range(HEADS):
        torch.manual_seed(seed)
        for layer in (bima.bias.mu, bima.bias.hidden[0]):
            assert isinstance(layer, nn.Linear)
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
        random.append(found_with_bias(matcher, test))
    return (
        f"content and bias of a word have a cosine of {cosine:.2f}; {MAIN} with the bias {found:.1f}, with random "
        f"heads {min(random):.1f} to {max(random):.1f}, in a random order {by_chance(test):.1f}"
    )


def by_chance(test: Split) -> float:
    """The share of clips that show all that a caption names, in percent."""
    return float(100 * showing(test.corpus, test.texts.ids, test.videos.ids).mean())


def found_with_bias(matcher: nn.Module, test: Split) -> float:
    """R@1 with mu in place of the content."""
    with captions_read(matcher, Reading(source="bias")):
        return found_of(matcher, test)[MAIN]  # type: ignore[arg-type]  # it is a matcher too


if __name__ == "__main__":
    main()
