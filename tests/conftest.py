"""Settings of the whole suite, made before anything is imported.

Also here so that pytest puts this folder on the path: tests in its subfolders import the modules they share from it.
"""

import os
import tempfile

import pytest

# Tests meet no network, leave nothing in the user's cache, and do not fight over cores.
_CACHE = tempfile.TemporaryDirectory(prefix="reasonrl-tests-")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_DATASETS_CACHE"] = _CACHE.name
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def pytest_unconfigure(config: pytest.Config) -> None:
    _CACHE.cleanup()
