"""Metrics: systems x reference sets -> segment statistics -> scores. See :mod:`polyref.metrics.base`."""

from __future__ import annotations

from polyref.metrics.base import Metric
from polyref.metrics.registry import METRICS, get_metric
from polyref.metrics.statistics import Scores, Statistics

__all__ = ["METRICS", "Metric", "Scores", "Statistics", "get_metric"]
