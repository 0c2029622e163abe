"""Shifts of videos: what corrupted clips cost a model; read `model`, `figures`, `measuring`, `page`."""
