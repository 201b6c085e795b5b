"""Critics: where they come from, what is refused, and that their values are those of one unpadded forward."""

from pathlib import Path
from typing import Any

import pytest
import torch
from small_models import COMMON, CONFIGS, SIZES, model_of, policy_of
from small_runs import judged, new_critic, tiny_policy
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    Lfm2Config,
    Qwen2Config,
)

from reasonrl import ReasonRLError
from reasonrl.batch import Batch, collate
from reasonrl.config import LoRAConfig
from reasonrl.models.critic import Critic, CriticModule
from reasonrl.models.load import Policy
from reasonrl.trainers.sample import row_of

KINDS = {"sequence": AutoModelForSequenceClassification, "token": AutoModelForTokenClassification}
RESPONSES = [judged(0, 0, (3, 4, 5, 6), 1.0), judged(0, 1, (7,), 0.0), judged(1, 0, (8, 9, 3, 3, 10, 11), 1.0)]


def batch_of(policy: Policy) -> Batch:
    return collate([row_of(one, int(one.problem.id[1:])) for one in RESPONSES], policy.pad_id)


def saved(folder: Path, kind: str, **changed: Any) -> tuple[str, Any]:
    """The folder of a reward model, and the model."""
    given = {key: value for key, value in CONFIGS["qwen2"].to_dict().items() if key not in ("id2label", "label2id")}
    config = Qwen2Config(**given | {"num_labels": 1} | changed)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        model = KINDS[kind].from_config(config).eval()
    model.save_pretrained(folder)
    return str(folder), model


def plain(trunk: Any, weight: Tensor, bias: Tensor | None) -> list[Tensor]:
    found = []
    for one in RESPONSES:
        prompt, response = one.rollout.prompt_ids, one.rollout.response_ids
        hidden = trunk(input_ids=torch.tensor([prompt + response])).last_hidden_state[0, len(prompt) - 1 : -1]
        found.append(hidden @ weight[0] + (0.0 if bias is None else bias[0]))
    return found


def assert_values(critic: Critic, policy: Policy, expected: list[Tensor]) -> None:
    batch = batch_of(policy)
    for share_prompt in (True, False):
        values = critic.values(batch, share_prompt=share_prompt)
        for row, mask, wanted in zip(values, batch.response_mask.bool(), expected, strict=True):
            torch.testing.assert_close(row[mask], wanted, atol=1e-5, rtol=1e-5)
            assert not row[~mask].any()


@pytest.mark.parametrize("kind", KINDS)
def test_a_reward_model_gives_trunk_and_head(tmp_path: Path, kind: str) -> None:
    path, model = saved(tmp_path, kind)
    if kind == "token":
        with torch.no_grad():
            model.score.bias.fill_(0.5)
        model.save_pretrained(tmp_path)
    policy = policy_of("qwen2")
    critic = new_critic(policy, path=path)
    assert not critic.shared
    assert critic.head.weight.dtype == torch.float32
    torch.testing.assert_close(critic.head.weight, model.score.weight)
    expected = plain(model.base_model, model.score.weight, model.score.bias)
    assert min(float(values.detach().abs().max()) for values in expected) > 0.1
    assert_values(critic, policy, expected)


def test_the_score_of_a_token_classifier_before_each_token_is_its_value(tmp_path: Path) -> None:
    path, model = saved(tmp_path, "token")
    policy = policy_of("qwen2")
    ids = torch.tensor([RESPONSES[2].rollout.prompt_ids + RESPONSES[2].rollout.response_ids])
    scores = model(input_ids=ids).logits[0, len(RESPONSES[2].rollout.prompt_ids) - 1 : -1, 0]
    torch.testing.assert_close(new_critic(policy, path=path).values(batch_of(policy), share_prompt=True)[2], scores)


def test_a_language_model_gives_a_trunk_and_a_head_of_zeros(tmp_path: Path) -> None:
    other, policy = model_of("qwen2", seed=3), policy_of("qwen2")
    other.save_pretrained(tmp_path)
    critic = new_critic(policy, path=str(tmp_path))
    assert not any(parameter.any() for parameter in critic.head.parameters())
    assert not critic.values(batch_of(policy), share_prompt=True).any()
    torch.nn.init.ones_(critic.head.weight)
    assert_values(critic, policy, plain(other.base_model, critic.head.weight, critic.head.bias))


def test_the_policy_gives_a_trunk_of_its_own_or_the_very_one() -> None:
    policy = policy_of("llama")
    own, shared = new_critic(policy), new_critic(policy, shared=True)
    assert shared.model is policy.model
    for critic in (own, shared):
        assert not critic.values(batch_of(policy), share_prompt=True).any()
        torch.nn.init.ones_(critic.head.weight)
        assert_values(critic, policy, plain(policy.model.base_model, critic.head.weight, critic.head.bias))
    theirs = {parameter.data_ptr() for parameter in own.model.parameters()}
    assert theirs.isdisjoint(parameter.data_ptr() for parameter in policy.model.parameters())
    assert all(parameter.requires_grad for parameter in CriticModule(own).parameters())


@pytest.mark.parametrize("kind", KINDS)
def test_two_labels_are_refused(tmp_path: Path, kind: str) -> None:
    path, _ = saved(tmp_path, kind, num_labels=2)
    with pytest.raises(ReasonRLError, match=r"algorithm\.critic\.path: .* without a `score` of one number for each"):
        new_critic(policy_of("qwen2"), path=path)


def test_another_vocabulary_is_refused(tmp_path: Path) -> None:
    path, _ = saved(tmp_path, "sequence", vocab_size=40)
    with pytest.raises(ReasonRLError, match="has a vocabulary of 40, the policy one of 17"):
        new_critic(policy_of("qwen2"), path=path)


def test_a_folder_that_is_not_there_is_told_at_its_key() -> None:
    with pytest.raises(ReasonRLError, match=r"algorithm\.critic\.path: there is no folder \./nowhere"):
        new_critic(policy_of("qwen2"), path="./nowhere")


def test_a_trunk_that_cannot_share_prompts_does_not_though_the_policy_can(tmp_path: Path) -> None:
    """A layer of convolutions keeps no keys and values."""
    config = Lfm2Config(**SIZES, **COMMON, num_key_value_heads=2, layer_types=["conv", "full_attention"])
    model, policy = AutoModelForCausalLM.from_config(config).eval(), policy_of("llama")
    model.save_pretrained(tmp_path)
    critic = new_critic(policy, path=str(tmp_path))
    assert new_critic(policy).shares_prompt
    assert not critic.shares_prompt
    torch.nn.init.ones_(critic.head.weight)
    assert_values(critic, policy, plain(model.base_model, critic.head.weight, critic.head.bias))


@pytest.mark.parametrize("given", [False, True])
def test_where_the_policy_checkpoints_its_gradients_so_does_the_critic(tmp_path: Path, given: bool) -> None:
    path, _ = saved(tmp_path, "sequence")
    policy = policy_of("qwen2")
    assert not CriticModule(new_critic(policy, path=path if given else None)).is_gradient_checkpointing
    policy.model.gradient_checkpointing_enable()
    critic = new_critic(policy, path=path if given else None)
    assert CriticModule(critic).is_gradient_checkpointing
    assert not critic.shares_prompt


def test_dropout_is_off(tmp_path: Path) -> None:
    path, _ = saved(tmp_path, "token", attention_dropout=0.5, classifier_dropout=0.5)
    policy = policy_of("qwen2")
    critic = new_critic(policy, path=path)
    CriticModule(critic).train()
    first, second = (critic.values(batch_of(policy), share_prompt=False) for _ in range(2))
    assert torch.equal(first, second)


def test_under_lora_it_trains_adapters_of_its_own_on_the_base_they_share() -> None:
    policy = tiny_policy(lora=LoRAConfig(rank=2))
    critic = new_critic(policy)
    ours = dict(policy.model.base_model.named_parameters())
    theirs = dict(critic.model.named_parameters())
    assert ours.keys() == theirs.keys()
    for name, parameter in theirs.items():
        assert parameter.requires_grad == ours[name].requires_grad == ("lora_" in name)
        assert (parameter is ours[name]) == (not parameter.requires_grad)
    trained = {name for name, parameter in CriticModule(critic).named_parameters() if parameter.requires_grad}
    adapters = {f"trunk.{name}" for name in theirs if "lora_" in name}
    assert trained == adapters | {"head.weight", "head.bias"}
    assert len(adapters) == 2 * 2 * 7, "A and B of seven layers in each of two blocks"
