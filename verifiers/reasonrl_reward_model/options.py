"""Options of `reward_model`: which model or server, and what becomes of its score."""

import math
from collections.abc import Callable
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, model_validator

from reasonrl import VerifierOptions

SQUASH: dict[str, Callable[[float], float]] = {
    "none": lambda score: score,
    # by the half that does not overflow
    "sigmoid": lambda score: 1 / (1 + math.exp(-score)) if score >= 0 else math.exp(score) / (1 + math.exp(score)),
}


class RemoteOptions(VerifierOptions):
    """A server that scores.

    Attributes:
        url: of a JSON endpoint, whole; of a vLLM server, without /classify or /pooling.
        api: how it is spoken to; see `remote.APIS`.
        model: its name on the server, where the server wants one.
        token: sent as `Authorization: Bearer …`.
        timeout: seconds for one request, from connecting to the last byte.
        retries: further tries of a request that failed for now: no connection, too slow, or status 408, 429 or 5xx.
        backoff: seconds before the first of them; twice as many before each next one.
        connections: requests at once.
    """

    url: str
    api: Literal["json", "vllm_classify", "vllm_pooling"] = "json"
    model: str | None = None
    token: SecretStr | None = None
    timeout: float = Field(60.0, gt=0, allow_inf_nan=False)
    retries: int = Field(3, ge=0, le=20)
    backoff: float = Field(0.5, ge=0, allow_inf_nan=False)
    connections: int = Field(8, ge=1, le=256)

    @model_validator(mode="after")
    def _is_http(self) -> Self:
        parts = urlsplit(self.url)
        _ = parts.port  # a ValueError where it is no number
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"remote.url is {self.url!r}; it must begin with http:// or https:// and name a host")
        return self


class RewardModelOptions(VerifierOptions):
    """Options of `reward_model`.

    Attributes:
        model, revision: a folder or hub id of a sequence classifier with one logit.
        remote: a server in place of a model.
        device, dtype, attention: where and how the model computes.
        batch_size: responses in one forward pass, or in one request to a JSON endpoint.
        max_tokens: of prompt and response, if less than the model takes.
        mean, std: the score becomes (score − mean) / std,
        squash: then σ of that,
        clip: then is held between these two.
    """

    model: str | None = Field(None, description="folder or hub id of a sequence classifier with one logit")
    revision: str | None = Field(None, description="of the model on the hub")
    remote: RemoteOptions | None = Field(None, description="a server in place of a model: url, api, timeout, …")
    device: str = Field("auto", description="auto: the process's GPU if there is one; or cpu, cuda, cuda:1")
    dtype: Literal["float32", "bfloat16"] = Field("float32", description="of the weights")
    attention: str = Field("sdpa", description="transformers' attention implementation")
    batch_size: int = Field(16, ge=1, description="responses in one forward pass or JSON request")
    max_tokens: int | None = Field(None, ge=1, description="most tokens of prompt and response; beyond, unjudged")
    mean: float = Field(0.0, allow_inf_nan=False, description="taken from the score")
    std: float = Field(1.0, gt=0, allow_inf_nan=False, description="the score is divided by this")
    squash: Literal["none", "sigmoid"] = Field("none", description="sigmoid: to between 0 and 1, after mean and std")
    clip: tuple[float, float] | None = Field(None, description="least and most reward, last of all")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.model is None) == (self.remote is None):
            raise ValueError("give either `model` (a folder or hub id) or `remote` (a server)")
        if self.remote is not None and (unread := sorted(self.model_fields_set & _LOCAL)):
            raise ValueError(f"a remote server is not told {', '.join(unread)}; leave it out, and set it on the server")
        if self.clip is not None and not -math.inf < self.clip[0] < self.clip[1] < math.inf:
            raise ValueError(f"clip is {list(self.clip)}; give two numbers, the lower one first")
        return self

    def reward(self, score: float) -> float:
        """What a score is worth: normalised, squashed, clipped."""
        reward = SQUASH[self.squash]((score - self.mean) / self.std)
        return reward if self.clip is None else min(max(reward, self.clip[0]), self.clip[1])


_LOCAL = {"revision", "device", "dtype", "attention", "max_tokens"}
