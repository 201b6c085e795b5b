"""The worker of the vLLM engine, which also writes down how much of each prompt it found in the prefix cache.

`python -m counting_vllm_worker FD PARENT`. A line of JSON per sample goes to the file named by COUNTS.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reasonrl.rollout import vllm_worker
from reasonrl.rollout.messages import Sample


class CountingWorker(vllm_worker.Worker):
    """Samples alike."""

    def _sample(self, message: Sample) -> Iterator[tuple[Any, ...]]:
        seen, step = dict[tuple[str, int], Any](), self._engine.step

        def counted() -> list[Any]:
            outputs: list[Any] = step()
            for output in outputs:
                for part in output.outputs:
                    seen.setdefault((output.request_id, part.index), output)
            return outputs

        self._engine.step = counted
        try:
            yield from super()._sample(message)
        finally:
            self._engine.step = step
        lines = (
            json.dumps({"prompt": list(output.prompt_token_ids), "cached": output.num_cached_tokens})
            for output in seen.values()
        )
        with Path(os.environ["COUNTS"]).open("a") as file:
            file.writelines(f"{line}\n" for line in lines)


if __name__ == "__main__":
    vllm_worker.Worker = CountingWorker  # type: ignore[misc]
    vllm_worker.main()
