"""What the papers of the algorithms set, and where a run does not. What a paper leaves open is no deviation."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from reasonrl.explain import departures
from reasonrl.explain.facts import Facts, Reinforcement
from reasonrl.explain.text import number, shown
from reasonrl.explain.unused import hasattr_at, value_at, without_effect


@dataclass(frozen=True)
class Stated:
    """What a paper has for a key.

    Attributes:
        words: the paper's setting.
        values: those of ours that say the same.
        like: or another key, which must have the same value.
    """

    words: str
    values: tuple[Any, ...] = ()
    like: str = ""

    def holds(self, config: Reinforcement, value: Any) -> bool:
        """Is it what the paper has?"""
        return value == value_at(config, self.like) if self.like else value in self.values


@dataclass(frozen=True)
class Paper:
    """A paper.

    Attributes:
        title: with its number at arXiv.
        settings: by key of the algorithm.
        left_open: what it does not state, or chooses task by task.
        departures: what is otherwise here by construction, if it concerns a run.
    """

    title: str
    settings: Mapping[str, Stated]
    left_open: str
    departures: tuple[Callable[[Facts], str | None], ...] = ()


_PLAIN = {
    "dual_clip": Stated("no such bound", (None,)),
    "target_kl": Stated("all updates of a step are taken", (None,)),
    "entropy_bonus": Stated("no entropy bonus", (0,)),
    "mask_truncated": Stated("cut responses are in the loss", (False,)),
    "overlong_buffer": Stated("no such shaping", (None,)),
    "refills": Stated("no dynamic sampling", (0,)),
    "kl.target": Stated("β does not adapt", (None,)),
    "process": Stated("rewards of outcomes", (None,)),
    "process_weight": Stated("no rewards of steps", (0,)),
}
_GROUP = {
    "advantage": Stated("(r − mean r)/std r in the group", ("group_relative",)),
    "std": Stated("divided by the std of the group, without saying whether 1/n or 1/(n − 1)", ("population", "sample")),
    "std_epsilon": Stated("nothing is added to the std", (0,)),
}
_CLIP = {"loss": Stated("the clipped surrogate", ("clip",))}
_SYMMETRIC = {"clip_high": Stated("one ε below and above 1", like="clip_low")}
_ONE_UPDATE = {
    "epochs": Stated("one update a step", (1,)),
    "minibatches": Stated("one update a step", (1,)),
}
_NO_KL = {"kl.coefficient": Stated("no KL term", (0,))}
_KL_IN_REWARD = {
    "kl.estimator": Stated("k1", ("k1",)),
    "kl.place": Stated("in the reward", ("reward",)),
}
_RATE = {"optimizer.learning_rate": Stated("1e-6", (1e-6,))}


PAPERS: dict[str, Paper] = {
    "grpo": Paper(
        "GRPO (DeepSeekMath, Shao et al. 2024, arXiv 2402.03300)",
        {key: stated for key, stated in _PLAIN.items() if key != "process"}
        | _GROUP
        | _CLIP
        | _SYMMETRIC
        | _ONE_UPDATE
        | _RATE
        | {
            "aggregation": Stated("the mean over a response's tokens, then over responses", ("sequence_mean",)),
            "group_size": Stated("64", (64,)),
            "kl.coefficient": Stated("0.04", (0.04,)),
            "kl.estimator": Stated("k3", ("k3",)),
            "kl.place": Stated("in the loss", ("loss",)),
        },
        "the value of ε, the optimiser's β₁, β₂ and schedule",
        (departures.iterations,),
    ),
    "dr_grpo": Paper(
        "Dr. GRPO (Liu et al. 2025, arXiv 2503.20783)",
        _PLAIN
        | _CLIP
        | _SYMMETRIC
        | _NO_KL
        | {
            "advantage": Stated("r − mean r in the group", ("group_relative",)),
            "std": Stated("no division by the std", ("none",)),
            "aggregation": Stated("the sum over tokens, divided by a constant", ("constant",)),
        },
        "the constant, which its code sets to the response limit, as here; group size, updates a step and optimiser, "
        "which are choices of its experiments",
    ),
    "rloo": Paper(
        "RLOO (Ahmadian et al. 2024, arXiv 2402.14740)",
        _PLAIN
        | _ONE_UPDATE
        | _KL_IN_REWARD
        | {
            "advantage": Stated("r less the mean r of the other responses", ("leave_one_out",)),
            "loss": Stated("REINFORCE: no ratio, no clip", ("importance_weighted",)),
            "aggregation": Stated("a response is one action: its token losses are summed", ("constant",)),
        },
        "β and the group size are chosen by data set",
        (departures.constant_factor, departures.ratio_per_token),
    ),
    "reinforce_pp": Paper(
        "REINFORCE++ (Hu 2025, arXiv 2501.03262)",
        _PLAIN
        | _CLIP
        | _SYMMETRIC
        | _KL_IN_REWARD
        | {
            "advantage": Stated("returns normalised over the batch", ("batch_whitened",)),
            "aggregation": Stated("a mean over tokens", ("token_mean",)),
        },
        "β, ε, updates a step and the group size, 1 or more, are chosen by experiment",
    ),
    "reinforce_pp_baseline": Paper(
        "REINFORCE++-baseline (Hu 2025, arXiv 2501.03262)",
        _PLAIN
        | _CLIP
        | _SYMMETRIC
        | {
            "advantage": Stated("r − mean r in the group, normalised over the batch", ("group_centred_whitened",)),
            "aggregation": Stated("a mean over tokens", ("token_mean",)),
            "kl.estimator": Stated("k2", ("k2",)),
            "kl.place": Stated("in the loss", ("loss",)),
        },
        "β, ε, updates a step and the group size are chosen by experiment",
    ),
    "dapo": Paper(
        "DAPO (Yu et al. 2025, arXiv 2503.14476)",
        {key: stated for key, stated in _PLAIN.items() if key != "refills"}
        | _GROUP
        | _CLIP
        | _NO_KL
        | _RATE
        | {
            "clip_low": Stated("0.2", (0.2,)),
            "clip_high": Stated("0.28", (0.28,)),
            "aggregation": Stated("the mean over all tokens", ("token_mean",)),
            "overlong_buffer": Stated("0.2: 4,096 of 20,480 tokens", (0.2,)),
            "mask_truncated": Stated("soft punishment, with cut responses in the loss", (False,)),
            "problems_per_step": Stated("512", (512,)),
            "group_size": Stated("16", (16,)),
            "epochs": Stated("each response is in one update", (1,)),
            "minibatches": Stated("16 updates a step", (16,)),
            "optimizer.schedule": Stated("constant after a warm-up of 20 steps", ("constant",)),
        },
        "AdamW's β₁, β₂ and weight decay",
        (departures.bounded_refills,),
    ),
    "gspo": Paper(
        "GSPO (Zheng et al. 2025, arXiv 2507.18071)",
        _PLAIN
        | _GROUP
        | {
            "loss": Stated("the surrogate with one ratio for a response", ("gspo",)),
            "clip_low": Stated("3e-4", (3e-4,)),
            "clip_high": Stated("4e-4", (4e-4,)),
            "aggregation": Stated("a mean over responses", ("sequence_mean",)),
            "epochs": Stated("each response is in one update", (1,)),
            "minibatches": Stated("4 updates a step", (4,)),
        },
        "a KL term, which it omits for brevity; group size and optimiser",
    ),
    "cispo": Paper(
        "CISPO (MiniMax-M1, MiniMax 2025, arXiv 2506.13585)",
        {key: stated for key, stated in _PLAIN.items() if key not in ("refills", "overlong_buffer")}
        | _GROUP
        | _NO_KL
        | {
            "loss": Stated("REINFORCE with a clipped weight", ("cispo",)),
            "clip_low": Stated("no lower bound of the weight", (1,)),
            "aggregation": Stated("the mean over all tokens", ("token_mean",)),
            "optimizer.betas": Stated("[0.9, 0.95]", ((0.9, 0.95),)),
            "optimizer.epsilon": Stated("1e-15", (1e-15,)),
        },
        "the upper bound of the weight, which it tunes; the numbers of dynamic sampling and a length penalty, which it "
        "takes from DAPO",
    ),
    "ppo": Paper(
        "PPO (Schulman et al. 2017, arXiv 1707.06347)",
        {key: stated for key, stated in _PLAIN.items() if key != "entropy_bonus"}
        | _NO_KL
        | {
            "clip_low": Stated("0.2", (0.2,)),
            "clip_high": Stated("0.2", (0.2,)),
            "discount": Stated("0.99", (0.99,)),
            "gae_lambda": Stated("0.95", (0.95,)),
            "whiten": Stated("advantages are as they are; OpenAI's code whitens them", (False,)),
            "value_clip": Stated("values are not clipped; OpenAI's code does so", (None,)),
            "value_coefficient": Stated("c_1 = 1 before (V − R̂)², which is 2 here", (2,)),
            "aggregation": Stated("a mean over time steps", ("token_mean",)),
            "critic.warmup_steps": Stated("policy and critic are trained from the first step", (0,)),
            "penalty.target": Stated("0.003, 0.01 or 0.03", (0.003, 0.01, 0.03)),
        },
        "epochs (10 in MuJoCo, 3 in Atari), minibatches, the entropy bonus (0.01 in Atari), a shared trunk, Adam's "
        "rate, and the first β of the penalty are chosen task by task",
        (departures.token_state, departures.ended_when_cut, departures.two_models),
    ),
    "trpo": Paper(
        "TRPO (Schulman et al. 2015, arXiv 1502.05477)",
        _PLAIN
        | _NO_KL
        | {
            "max_kl": Stated("0.01", (0.01,)),
            "cg_iterations": Stated("10", (10,)),
            "fisher_share": Stated("Fisher-vector products on a tenth of the data", (0.1,)),
            "aggregation": Stated("a mean over time steps", ("token_mean",)),
        },
        "damping, which its code sets to 0.1, the tolerance of the conjugate gradient, and how the line search shrinks",
        (departures.no_critic,),
    ),
}


def deviations(facts: Facts) -> list[str]:
    """Where a run is not its paper's algorithm, and what the paper leaves open."""
    config, paper = facts.algorithm, PAPERS[facts.algorithm.name]
    unused = without_effect(facts)
    lines = [paper.title]
    lines += [
        f"{key} {shown(value)}; the paper: {stated.words}"
        for key, stated in paper.settings.items()
        if hasattr_at(config, key) and key not in unused
        if not stated.holds(config, value := value_at(config, key))
    ]
    if facts.corrects is not False:
        where = "" if facts.corrects else ", if vllm samples"
        cap = number(config.importance.cap)
        lines.append(
            f"importance.mode {config.importance.mode}: w = min(π_old/μ, {cap}){where}; the paper: no such weight"
        )
    if len(lines) == 1:
        lines.append("no setting deviates from what the paper states")
    lines += [f"by construction: {text}" for make in paper.departures if (text := make(facts)) is not None]
    return [*lines, f"left open by the paper: {paper.left_open}"]
