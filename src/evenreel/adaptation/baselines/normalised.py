"""Normalisation of scores by a bank of earlier queries of a stream (QB-Norm, NNN), a baseline of adaptation.

QB-Norm (Bogolin et al. 2022) and NNN (Chowdhury et al. 2024) lower the scores of clips that many queries rank high,
without training. Both take their bank from the training set; here it grows with the stream, so that no query is ranked
by one that comes later. The formulas are given from outside, because those of `evenreel.evaluation.rescoring` belong to
a later layer.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from evenreel.errors import UsageError
from evenreel.types import FloatArray

Rescore = Callable[[FloatArray, FloatArray], FloatArray]
"""Scores (q, V) of queries and (N, V) of a bank -> corrected scores (q, V)."""


class StreamNorm:
    """Normalisation of each batch of scores (B, V) by the scores of earlier queries, which it keeps as a bank.

    The bank holds scores as they were when their query came. Where the matcher adapts meanwhile, score the queries
    again and start anew.

    >>> halved = StreamNorm(lambda scores, bank: scores - bank.mean(axis=0), least=2)
    >>> halved(np.array([[0.5, 0.25], [0.25, 0.5]]))  # nothing came before
    array([[0.5 , 0.25],
           [0.25, 0.5 ]])
    >>> halved(np.array([[1.0, 0.0]]))
    array([[ 0.625, -0.375]])
    """

    def __init__(self, rescore: Rescore, *, least: int = 1, most: int = 4096) -> None:
        """Start with an empty bank.

        Args:
            rescore: the correction, `querybank_norm` or `nearest_neighbour_norm` for example.
            least: scores stay as they are until the bank has so many queries; NNN needs as many as its `top`.
            most: queries in the bank, the latest; it takes 4 x most x V bytes in float32.

        Raises:
            UsageError: `least` is below 1 or above `most`.
        """
        if not 1 <= least <= most:
            raise UsageError(
                f"A growing bank of queries was to correct scores from {least:,} queries on and to hold {most:,} at "
                "most; the first must be at least 1 and no more than the second."
            )
        self._rescore, self._least, self._most = rescore, least, most
        self._bank: FloatArray | None = None

    def __len__(self) -> int:
        """Count the queries in the bank."""
        return 0 if self._bank is None else len(self._bank)

    def __call__(self, scores: FloatArray) -> FloatArray:
        """Normalise the scores of a batch, and add them to the bank.

        Args:
            scores: (q, V) of queries in the order in which they came.

        Returns:
            (q, V); the scores themselves while the bank is too small.

        Raises:
            UsageError: the gallery has another number of clips than before.
        """
        if self._bank is not None and self._bank.shape[1] != scores.shape[1]:
            raise UsageError(
                f"The bank has scores of {self._bank.shape[1]:,} clips and the batch of {scores.shape[1]:,}; start "
                "a new bank for another gallery."
            )
        bank = scores[:0] if self._bank is None else self._bank
        self._bank = np.concatenate([bank, scores])[-self._most :]
        return self._rescore(scores, bank) if len(bank) >= self._least else scores
