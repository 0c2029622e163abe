"""How often the offline tagger agrees with people, on the narrations of EPIC-KITCHENS-100.

    python -m benchmarks.language [--data FOLDER]

The first table is about words: the main verb (the first that is no stop verb) and the nouns, of distinct narrations,
beside TextBlob's lexicon alone. The second is about classes: relevance from ours (half equal verbs, half IoU of the
nouns) beside relevance from the annotated ones, over all pairs of 1,500 narrations. The third is about role graphs: in
how many narrations the main verb is a node, how many of the annotated nouns take part in an action, and what it costs.
"""

from __future__ import annotations

import argparse
import ast
import os
import time
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import spearmanr

from evenreel.language import NO_SYNONYMS, ClassRules, Tagged, Token, classes_of, lemmas, load_tagger, stop_verbs
from evenreel.language.folding import lemma_of, part_of
from evenreel.language.role_graphs import role_graph
from evenreel.language.tokens import split_words
from evenreel.types import RoleGraph

DATA = Path(os.environ.get("EVENREEL_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
FILES = {
    "test": ("EPIC_100_retrieval_test.csv", "all_nouns"),
    "train": ("EPIC_100_retrieval_train_sentence.csv", "nouns"),
}
RULES = {
    "lemmas, heads": ClassRules(synonyms=NO_SYNONYMS),
    "lemmas, every noun": ClassRules(synonyms=NO_SYNONYMS, heads_only=False),
    "groups, heads (default)": ClassRules(),
    "groups, every noun": ClassRules(heads_only=False),
    "groups, heads, in 5 captions or more": ClassRules(min_captions=5),
}

Tag = Callable[[Sequence[str]], Sequence[Tagged]]


def lexicon_alone(captions: Sequence[str]) -> list[Tagged]:
    """What TextBlob says without a context rule and without ours."""
    from textblob.en import parser

    tagged = []
    for caption in captions:
        words = [word.lower() for word in split_words(caption)]
        pairs = parser.find_tags(words) if words else []
        tagged.append(tuple(Token(word, lemma_of(word, part_of(tag)), tag) for word, tag in pairs))
    return tagged


def narrations(path: Path, nouns: str) -> list[tuple[str, str, set[str]]]:
    """Distinct narrations with the first word of their verb and every word of their nouns."""
    rows = pl.read_csv(path).select("narration", "verb", nouns).unique(maintain_order=True)
    return [
        (text, verb.split("-")[0], {word for one in ast.literal_eval(listed) for word in one.split(":")})
        for text, verb, listed in rows.iter_rows()
    ]


def word_agreement(rows: Sequence[tuple[str, str, set[str]]], tag: Tag) -> tuple[float, float, float]:
    """Shares of main verbs that are right, of found nouns that are annotated, of annotated nouns that are found."""
    right = found = annotated = both = 0
    for (_, verb, expected), tokens in zip(rows, tag([row[0] for row in rows]), strict=True):
        verbs = lemmas(tokens, "verb")
        right += next((one for one in verbs if one not in stop_verbs()), verbs[0] if verbs else "") == verb
        nouns = set(lemmas(tokens, "noun"))
        found, annotated, both = found + len(nouns), annotated + len(expected), both + len(nouns & expected)
    return right / len(rows), both / found, both / annotated


def relevance(verbs: Sequence[Sequence[int]], nouns: Sequence[Sequence[int]]) -> NDArray[np.float64]:
    """Of all pairs of rows: half equal sets of verbs, half IoU of the nouns."""
    shared_verbs, all_verbs = _overlap(verbs)
    shared_nouns, all_nouns = _overlap(nouns)
    equal = (shared_verbs == all_verbs) & (all_verbs > 0)
    upper = np.triu_indices(len(verbs), 1)
    return np.asarray((equal + shared_nouns / np.maximum(all_nouns, 1)) / 2)[upper]


def _overlap(sets: Sequence[Sequence[int]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    has = np.zeros((len(sets), 1 + max(chain([0], *sets))))
    for row, one in enumerate(sets):
        has[row, list(one)] = 1
    shared = has @ has.T
    return shared, has.sum(1)[:, None] + has.sum(1)[None, :] - shared


def print_words(folder: Path) -> None:
    print(f"{'':16s}{'narrations':>12s}{'verb':>10s}{'noun precision':>16s}{'noun recall':>13s}")
    for split, (name, nouns) in FILES.items():
        rows = narrations(folder / name, nouns)
        for tagger, tag in {"lexicon alone": lexicon_alone, "pattern": load_tagger("pattern").tag}.items():
            verb, precision, recall = (100 * share for share in word_agreement(rows, tag))
            print(f"{split} {tagger:14s}{len(rows):9,d}{verb:9.1f} %{precision:14.1f} %{recall:11.1f} %")


def print_classes(folder: Path, count: int) -> None:
    rows = pl.read_csv(folder / FILES["test"][0]).unique("narration", maintain_order=True).sample(count, seed=0)
    theirs = relevance(
        [[one] for one in rows["verb_class"]], [ast.literal_eval(one) for one in rows["all_noun_classes"]]
    )
    tagged = load_tagger("pattern").tag(rows["narration"].to_list())
    print(f"\n{100 * (theirs > 0).mean():.1f} % of the pairs have a relevance above 0")
    print(f"{'classes':38s}{'correlation':>12s}{'Spearman':>10s}{'ours right':>12s}{'theirs found':>14s}")
    for name, rules in RULES.items():
        classes = classes_of(tagged, rules)
        ours = relevance(classes.verbs, classes.nouns)
        both = ((ours > 0) & (theirs > 0)).sum()
        alike, ranks = np.corrcoef(theirs, ours)[0, 1], spearmanr(theirs, ours)[0]
        right, found = 100 * both / (ours > 0).sum(), 100 * both / (theirs > 0).sum()
        print(f"{name:38s}{alike:12.3f}{ranks:10.3f}{right:10.0f} %{found:12.0f} %")


def graph_agreement(rows: Sequence[tuple[str, str, set[str]]], graphs: Sequence[RoleGraph]) -> tuple[float, float]:
    """Shares of annotated verbs that are a node, and of annotated words of nouns that are in a node of some verb."""
    right = annotated = taking_part = 0
    for (_, verb, expected), graph in zip(rows, graphs, strict=True):
        words = graph.words
        right += verb in {lemma_of(words[node.words[0]], "verb") for node in graph.nodes if node.is_verb}
        places = {place for _, noun in graph.edges for place in graph.nodes[noun].words}
        annotated += len(expected)
        taking_part += len(expected & {lemma_of(words[place], "noun") for place in places})
    return right / len(rows), taking_part / annotated


def print_graphs(folder: Path) -> None:
    print(f"\n{'':8s}{'narrations':>12s}{'verb':>10s}{'nouns take part':>17s}{'processor time':>16s}")
    for split, (name, nouns) in FILES.items():
        rows = narrations(folder / name, nouns)
        tagged = load_tagger("pattern").tag([row[0] for row in rows])
        started = time.process_time()
        graphs = [role_graph(tokens) for tokens in tagged]
        cost = 1e6 * (time.process_time() - started) / len(rows)
        verb, taking_part = (100 * share for share in graph_agreement(rows, graphs))
        print(f"{split:8s}{len(rows):12,d}{verb:8.1f} %{taking_part:15.1f} %{cost:12.0f} µs")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA, help="folder with epic_kitchens_100")
    parser.add_argument("--pairs-of", type=int, default=1_500, help="narrations whose pairs are compared")
    options = parser.parse_args()
    folder = options.data / "epic_kitchens_100"
    if not folder.is_dir():
        parser.error(f"{folder} is not there; it holds the retrieval files of EPIC-KITCHENS-100")
    print_words(folder)
    print_classes(folder, options.pairs_of)
    print_graphs(folder)


if __name__ == "__main__":
    main()
