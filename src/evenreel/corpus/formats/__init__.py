"""Readers of the files of benchmarks, one a format: files in, an `Imported` out; `registry.FORMATS` lists them."""
