"""Tests and intervals that several audits share: means, permutations, exchanges, intervals by inversion."""
