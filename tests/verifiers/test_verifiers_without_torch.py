"""The bundled verifiers run in worker processes, of which there are many: none of them may cost an import of torch."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from reasonrl import Problem, Response
{imports}
verdict = {verifier}.verify(Problem("p", "", {reference!r}), Response({response!r}, tokens=5))
assert verdict.reward == {reward}, verdict
heavy = [name for name in ("torch", "transformers", "datasets") if name in sys.modules]
assert not heavy, heavy
"""


@pytest.mark.parametrize(
    ("imports", "verifier", "reference", "response", "reward"),
    [
        ("from reasonrl_rules import Exact", "Exact()", "5", "5", 1.0),
        ("from reasonrl_rules import Choice", "Choice()", "C", "(C)", 1.0),
        ("from reasonrl_rules import Format", "Format()", None, "<think>a</think><answer>b</answer>", 1.0),
        ("from reasonrl_rules.length import *", "Length(LengthOptions(max_tokens=6, buffer=2))", None, "text", -0.5),
        ("from reasonrl_rules import ArithmeticSteps", "ArithmeticSteps()", "5", "2+3=5 #### 5", 1.0),
        ("from reasonrl_math import Math", "Math()", "1/2", r"\boxed{0.5}", 1.0),
    ],
)
def test_no_torch(imports: str, verifier: str, reference: str | None, response: str, reward: float) -> None:
    program = PROGRAM.format(imports=imports, verifier=verifier, reference=reference, response=response, reward=reward)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "a verifier must not write to stderr"
