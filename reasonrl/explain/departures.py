"""Where the algorithms are not their papers' by construction; None where it does not concern a run."""

from reasonrl.config import PPOConfig
from reasonrl.explain.facts import Facts


def iterations(facts: Facts) -> str | None:
    """The reference of GRPO, where there is one."""
    if not facts.has_reference:
        return None
    return "one outer iteration: the reference stays as it is, where Algorithm 1 may replace it by the policy"


def constant_factor(facts: Facts) -> str | None:
    """What a sum over a response's tokens is divided by."""
    if facts.algorithm.aggregation != "constant":
        return None
    limit = facts.sampling.max_tokens
    return f"the sum of a response's token losses is divided by {limit}, the response limit: a constant factor"


def ratio_per_token(facts: Facts) -> str | None:
    """The ratio of RLOO, off policy."""
    if facts.on_policy:
        return None
    return "with several updates a step each token has its own ratio ρ; the paper has one update, and no ratio"


def bounded_refills(facts: Facts) -> str | None:
    """The end of dynamic sampling."""
    if not facts.refills:
        return None
    return (
        f"groups without spread are replaced up to {facts.refills} times a step, which may stay short of groups; the "
        "paper samples until the batch is full"
    )


def token_state(facts: Facts) -> str | None:
    """What stands for PPO's states, actions and rewards."""
    return (
        "the state is the text so far, the action the next token; the reward of a response stands on its last token, "
        "and KL in the reward on every token (arXiv 2203.02155)"
    )


def ended_when_cut(facts: Facts) -> str | None:
    """The value behind a response that was cut."""
    return "a response cut at the token limit has ended: nothing is bootstrapped behind it"


def two_models(facts: Facts) -> str | None:
    """How the losses of policy and critic come together."""
    if isinstance(facts.algorithm, PPOConfig) and not facts.algorithm.critic.shared:
        return "policy and critic have an optimiser each, where eq. 9 sums their losses"
    return "c_v stands before ½·(V − R̂)², where eq. 9 has (V − R̂)²: c_v = 2 is its c_1 = 1"


def no_critic(facts: Facts) -> str | None:
    """TRPO's advantages and its KL."""
    return (
        "advantages are those of a group of responses, without a critic; KL is exact, and averaged over response tokens"
    )
