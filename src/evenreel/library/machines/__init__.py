"""Indexing on many machines: Ray Data hands paths to workers, which leave files and answer with records.

`session.RaySession` is what an index run holds: a process of its own in which Ray's driver runs (`driver`), so that
what Ray prints, hangs on or dies of stays there. Ray's workers read and encode (`clip_worker`) and leave shards and
stills at a place that all machines reach (`arrivals`); the index run alone writes to the library
(`evenreel.library.index.spread`).
"""
