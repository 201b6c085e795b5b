"""The program taken from a response: blocks, tags, thinking, truncation, and completions of a prompt."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reasonrl_code.program import Block, after, continued, fenced_blocks, is_program, program_in

PROMPT = 'from typing import List\n\n\ndef half(xs: List[int]) -> List[float]:\n    """Halve each."""\n'
BODY = "    return [x / 2 for x in xs]\n"
WHOLE = "def half(xs: List[int]):\n" + BODY


def source(response: str, language: str = "python", wanted: str = "", raw: bool = True) -> str | None:
    found = program_in(response, language, wanted=wanted, raw=raw)
    return None if found is None else found.source


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("a\n```python\nx = 1\n```\nb", [Block("python", "x = 1\n")]),
        ("```\n1\n```\n~~~py\n2\n~~~", [Block("", "1\n"), Block("py", "2\n")]),
        ("```python\r\nx\r\n```\r\n", [Block("python", "x\n")]),
        ("```python\nx = 1\ny", [Block("python", "x = 1\ny\n")]),  # cut off
        ("````md\n```python\nx\n```\n````", [Block("md", "```python\nx\n```\n")]),  # a block that shows a block
        ("~~~\n```\n~~~", [Block("", "```\n")]),
        ("- so:\n  ```python\n  if x:\n      y\n  ```", [Block("python", "if x:\n    y\n")]),
        ("1. ```python\n   x\n   ```", [Block("python", "x\n")]),
        ("```{.python .numberLines}\nx\n```", [Block("python", "x\n")]),
        ("```Python 3\nx\n```", [Block("python", "x\n")]),
        ('```python title="a.py"\nx\n```', [Block("python", "x\n")]),
        ("a `x` and ```x``` in prose", []),
        ("```python\n```", [Block("python", "")]),
        ("", []),
    ],
)
def test_fenced_blocks(text: str, blocks: list[Block]) -> None:
    assert fenced_blocks(text) == blocks


@pytest.mark.parametrize(
    ("response", "wanted", "expected"),
    [
        ("```python\n1\n```\n```python\n2\n```", "", "2\n"),
        ("```python\n1\n```\n```\n$ python x\n```", "", "1\n"),  # the tag wins over what is last
        ("```\n1\n```\n```text\noutput\n```", "", "1\n"),  # another language is no answer
        ("```java\nclass A {}\n```", "", None),
        ("```python3\n1\n```", "", "1\n"),
        ("```pycon\n>>> f(1)\n```", "", None),
        ("```python\ndef f(): 1\n```\nUse it:\n```python\nprint(f())\n```", "f", "def f(): 1\n"),
        ("```python\ndef f(): 1\n```\n```python\nclass S:\n    def f(s): 2\n```", "f", "class S:\n    def f(s): 2\n"),
        ("```python\nf = abs\n```\n```python\nf(1)\n```", "f", "f = abs\n"),
        ("```python\nfoo = 1\n```\n```python\nf(1)\n```", "f", "f(1)\n"),
        ("```python\n1\n```</think>\nThe answer is 3.", "", "\nThe answer is 3."),
        ("<think>```python\n1\n```</think>```python\n2\n```", "", "2\n"),
        ("x = 1\n", "", "x = 1\n"),
        ("x = 1\r\n", "", "x = 1\n"),
        ("  \n", "", None),
        ("```python\n```", "", ""),
    ],
)
def test_the_program_of_a_response(response: str, wanted: str, expected: str | None) -> None:
    assert source(response, wanted=wanted) == expected


def test_a_response_without_a_block_is_a_program_only_if_that_is_allowed() -> None:
    assert source("x = 1", raw=False) is None
    assert source("```\nx = 1\n```", raw=False) == "x = 1\n"


@pytest.mark.parametrize("tag", ["cpp", "c++", "C++17", "cc"])
def test_tags_of_cpp(tag: str) -> None:
    assert source(f"```{tag}\nint main() {{}}\n```\n```python\n1\n```", "cpp") == "int main() {}\n"


@pytest.mark.parametrize(
    ("text", "language", "program"),
    [
        ("print(1)", "python", True),
        ("The answer is 3.", "python", False),
        ("return 1", "python", True),  # it parses; that it does not compile shows when it runs
        ("x" * 5_000_000, "python", False),
        ("(" * 5000, "python", False),
        ("#include <cstdio>\nint x;", "cpp", True),
        ("int main () { }", "cpp", True),
        ("The main point is this.", "cpp", False),
    ],
)
def test_prose_is_no_program(text: str, language: str, program: bool) -> None:
    assert is_program(text, language) is program


@pytest.mark.parametrize(
    "completion",
    [
        WHOLE,
        BODY,
        "return [x / 2 for x in xs]\n",  # the indentation lost
        "return [x / 2\n            for x in xs]\n",  # that of the first line only
        "ys = xs\nreturn [y / 2 for y in ys]\n",
        "# half\nfrom __future__ import annotations\n" + WHOLE,
        "import math\n\n" + WHOLE,
        PROMPT + BODY,
    ],
)
def test_a_completion_of_a_prompt_makes_a_whole_function(completion: str) -> None:
    program = continued(completion, PROMPT, "half")
    namespace: dict[str, object] = {}
    exec(compile(program, "program", "exec"), namespace)  # these are our own
    half = namespace["half"]
    assert callable(half)
    assert half([1, 2]) == [0.5, 1.0]


@pytest.mark.parametrize("completion", ["", "import os\n", "def other():\n    pass\n", "def half(:\n", '"""Half."""\n'])
def test_what_completes_nothing_does_not_get_the_prompts_function(completion: str) -> None:
    # Else the stub of the prompt, which returns None, would stand for an answer.
    assert continued(completion, PROMPT, "half") == completion


def test_helpers_of_the_prompt_are_there_for_the_completion() -> None:
    prompt = "def twice(x):\n    return 2 * x\n\n\ndef four(x):\n    '''Four times.'''\n"
    program = continued("def four(x):\n    return twice(twice(x))\n", prompt, "four")
    assert [one.name for one in ast.parse(program).body if isinstance(one, ast.FunctionDef)] == [
        "twice",
        "four",
        "four",
    ]


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("x = 1\n", "import math\nx = 1\n"),
        ("from __future__ import annotations\nx = 1\n", "from __future__ import annotations\nimport math\nx = 1\n"),
        (
            "# a\nfrom __future__ import (\n  annotations,\n)\nx",
            "from __future__ import (\n  annotations,\n)\nimport math\n# a\nx",
        ),
    ],
)
def test_a_header_comes_after_imports_from_the_future(program: str, expected: str) -> None:
    assert after("import math", program) == expected


@given(st.lists(st.sampled_from(["```", "```python", "~~~", "    ```", "x = 1", "", "</think>", "````", "- ```py"])))
def test_any_text_has_blocks_that_are_made_of_its_lines(lines: list[str]) -> None:
    text = "\n".join(lines)
    for block in fenced_blocks(text):
        assert all(one in {line.strip() for line in lines} for one in map(str.strip, block.source.splitlines()))
    found = program_in(text, "python")
    assert found is None or found.source.strip() in text or "    " in text
