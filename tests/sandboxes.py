"""The sandbox for tests: the real one, or a reason to skip."""

import shutil

import pytest

needs_sandbox = pytest.mark.skipif(
    shutil.which("bwrap") is None, reason="needs bubblewrap (Debian, Ubuntu: apt-get install bubblewrap)"
)
needs_compiler = pytest.mark.skipif(
    shutil.which("g++") is None, reason="needs a C++ compiler (Debian, Ubuntu: apt-get install g++)"
)
