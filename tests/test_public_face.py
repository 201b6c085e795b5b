"""The names users and plugins import, and what importing them costs."""

import subprocess
import sys
from importlib.metadata import version

import reasonrl


def test_the_public_names_are_these_and_exist() -> None:
    assert set(reasonrl.__all__) == {
        "Diagnosis",
        "Message",
        "Problem",
        "ReasonRLError",
        "Response",
        "Rollout",
        "StepReward",
        "Verdict",
        "Verifier",
        "VerifierOptions",
        "hookimpl",
    }
    assert all(hasattr(reasonrl, name) for name in reasonrl.__all__)


def test_the_version_is_the_distribution_s() -> None:
    assert reasonrl.__version__ == version("reasonrl")


def test_importing_the_package_imports_neither_torch_nor_transformers() -> None:
    code = "import sys, reasonrl; print(*sorted({'torch', 'transformers', 'datasets'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == ""
