"""Differences of logits: how they are measured, and how large they may be by rounding."""

from __future__ import annotations

import torch

#: The largest relative difference of logits that quantization or half precision explains.
COARSE = 0.25


def tolerance(dtype: torch.dtype) -> float:
    """The largest relative difference of logits that rounding explains.

    Eight units of the last place, and 2e-4 for float32 and better, whose kernels differ by more than the
    last place: float32 2e-4, float16 0.8 %, bfloat16 6 %.

    >>> tolerance(torch.float32), tolerance(torch.bfloat16)
    (0.0002, 0.0625)
    """
    return max(8 * torch.finfo(dtype).eps, 2e-4)


def difference(one: torch.Tensor, other: torch.Tensor) -> float:
    """The largest difference of rows of logits (rows, vocabulary), relative to the spread of ``other``.

    >>> difference(torch.tensor([[0.0, 2.0]]), torch.tensor([[1.0, 3.0]]))
    0.0
    >>> round(difference(torch.tensor([[0.0, 2.2]]), torch.tensor([[0.0, 2.0]])), 6)
    0.1
    """
    one, other = one.double(), other.double()
    finite = one.isfinite()
    if not torch.equal(finite, other.isfinite()):
        return float("inf")
    one, other = (values.masked_fill(~finite, 0.0) for values in (one, other))
    one, other = (values - values.mean(-1, keepdim=True) for values in (one, other))
    spread = other.square().mean(-1).sqrt().clamp(min=torch.finfo(torch.float32).tiny)
    return float(((one - other).square().mean(-1).sqrt() / spread).max())


def described(apart: float | None) -> str:
    """A difference in words; None and infinity say that the code does not take the input."""
    if apart is None or apart == float("inf"):
        return "its code does not take such input"
    return f"logits differ by {apart:.2g} of their spread"
