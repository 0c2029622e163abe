"""Between the weights that training began with and those it came to: WiSE-FT (arXiv 2109.01903, section 3).

What a tower knew from elsewhere holds where a shortcut of the training data does not; what it learned fits the task.
The mean of both weights keeps most of either, and costs a search nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from evenreel.training.loop.module import RetrievalModule


def mixed_words(share: float) -> str:
    """Words behind the weights of a step, where they are mixed.

    >>> mixed_words(0.5), mixed_words(0.0)
    (', mixed with 50% of those that training began with', '')
    """
    return f", mixed with {share:.0%} of those that training began with" if share else ""


class StartShare:
    """Weights that a module has now, to be mixed in later.

    Args:
        module: with the weights that training begins with; towers that learn nothing take no part.
        share: of these weights in the mean, 0 to 1; with 0 nothing is remembered and nothing is ever changed.
    """

    def __init__(self, module: RetrievalModule, share: float) -> None:
        self._share = share
        self._start = {name: weights.clone() for name, weights in _weights(module).items()} if share else {}

    def mix(self, module: RetrievalModule) -> None:
        """Make the module's weights `(1 - share) trained + share start`."""
        with torch.no_grad():
            for name, weights in _weights(module).items():
                if name in self._start:
                    weights.lerp_(self._start[name].to(weights.device), self._share)

    @contextmanager
    def mixed(self, module: RetrievalModule) -> Iterator[None]:
        """Mix the weights of a module for a while; afterwards it has its own again, to the bit."""
        own = {name: weights.clone() for name, weights in _weights(module).items() if name in self._start}
        self.mix(module)
        try:
            yield
        finally:
            with torch.no_grad():
                for name, weights in _weights(module).items():
                    if name in own:
                        weights.copy_(own[name])


def _weights(module: RetrievalModule) -> dict[str, Tensor]:
    """What learns, and buffers of floating point."""
    return {name: weights for name, weights in module.learned().items() if weights.is_floating_point()}
