"""Drives SGLang through a profiling campaign: an engine of its own, or running servers.

SGLang itself is imported in :mod:`~dwise_predict.engines.sglang_engine.worker` only, which runs in
a process of its own.
"""
