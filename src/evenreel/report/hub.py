"""Figures as the Hugging Face hub reads them: files of `.eval_results/`, and the results of a model card.

The formats are those of huggingface_hub, which writes them: https://huggingface.co/docs/hub/eval-results.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from evenreel.errors import UsageError
from evenreel.evaluation.comparison import side_by_side
from evenreel.evaluation.measure import DirectionResult, Evaluation
from evenreel.evaluation.metrics import Metric
from evenreel.report.side_by_side import as_markdown
from evenreel.report.words import interval, percent

_ID = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+")
_TASK = {"t2v": "text-to-video retrieval", "v2t": "video-to-text retrieval"}


@dataclass(frozen=True)
class HubDataset:
    """Dataset on the hub that figures are of.

    Attributes:
        id: id of the dataset, `owner/name`.
        split: split that was measured; empty for the whole of it.

    Raises:
        UsageError: the id has another form.
    """

    id: str
    split: str = ""

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise UsageError(f"{self.id!r} is no id of a dataset on the hub; give owner/name, as its address has it.")


def eval_results(evaluation: Evaluation, dataset: HubDataset) -> str:
    """Write a file of `.eval_results/`: YAML with an entry for each direction and metric, such as the task `t2v-R@1`.

    What a figure depends on (interval, protocol, size, ties, what the scores use) is in its notes.
    """
    import yaml
    from huggingface_hub import EvalResultEntry, eval_result_entries_to_yaml

    entries = [
        EvalResultEntry(dataset.id, f"{result.direction}-{metric}", value, notes=_notes(evaluation, result, metric))
        for result, metric, value in _figures(evaluation)
    ]
    text: str = yaml.safe_dump(eval_result_entries_to_yaml(entries), sort_keys=False, allow_unicode=True)
    return text


def model_card(name: str, evaluation: Evaluation, dataset: HubDataset) -> str:
    """Write a model card's results: its `model-index` in YAML, and the same figures as a table of Markdown."""
    import yaml
    from huggingface_hub import EvalResult
    from huggingface_hub.repocard_data import eval_results_to_model_index

    results = [
        EvalResult(
            task_type=_TASK[result.direction].replace(" ", "-"),
            task_name=_TASK[result.direction],
            dataset_type=dataset.id,
            dataset_name=dataset.id.split("/")[1],
            dataset_split=dataset.split or None,
            metric_type=str(metric),
            metric_name=f"{metric} ({_notes(evaluation, result, metric)})",
            metric_value=value,
        )
        for result, metric, value in _figures(evaluation)
    ]
    index: Any = {"model-index": _plain(eval_results_to_model_index(name, results))}
    head = yaml.safe_dump(index, sort_keys=False, allow_unicode=True)
    return f"---\n{head}---\n\n## Evaluation\n\n{as_markdown(side_by_side({name: evaluation}))}"


def _figures(evaluation: Evaluation) -> Iterator[tuple[DirectionResult, Metric, float]]:
    for result in evaluation.directions.values():
        for metric in evaluation.metrics:
            yield result, metric, result.summary[str(metric)].value


def _notes(evaluation: Evaluation, result: DirectionResult, metric: Metric) -> str:
    ends = interval(result.summary[str(metric)], metric)
    parts = [
        *([f"{percent(evaluation.confidence)} interval {ends}"] if ends else []),
        f"{len(result.query_ids):,} queries among {result.gallery_size:,}",
        f"protocol {result.protocol}",
        f"relevance {evaluation.relevance}",
        f"ties {evaluation.ties}",
        *([f"uses {' and '.join(evaluation.uses)}"] if evaluation.uses else []),
    ]
    return "; ".join(parts)


def _plain(value: Any) -> Any:
    """Without what is empty, as model cards leave it out."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items() if one is not None}
    return [_plain(one) for one in value] if isinstance(value, list) else value
