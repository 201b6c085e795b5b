"""The float64 rows of an independent NumPy implementation (tests/data/oracles.json), and how a test reads them."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

Case = dict[str, Any]

CASES: list[Case] = json.loads((Path(__file__).parent / "data" / "oracles.json").read_text("utf-8"))["cases"]


def rows(fn: str) -> pytest.MarkDecorator:
    """The decorator that runs a test once for each row of one function."""
    return pytest.mark.parametrize("case", [pytest.param(c, id=c["name"]) for c in CASES if c["fn"] == fn])


def close(got: Tensor, expected: Any, tolerance: float = 1e-9) -> None:
    torch.testing.assert_close(got, float64(expected), rtol=0, atol=tolerance)


def float64(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def padded(ragged: list[list[float]], width: int) -> Tensor:
    """Ragged rows as (B, T), NaN behind the end: whatever reads the padding shows."""
    return float64([[*row, *[float("nan")] * (width - len(row))] for row in ragged])
