"""Rollouts × verifiers → verdicts: killable worker processes, a deadline for each check, streaming. No torch here.

`Scorer` is the whole of it for trainers and evaluation: `submit` each response as it arrives, `collect` the batch.
"""

from reasonrl.scoring.records import Scored, WeightedVerifier
from reasonrl.scoring.scorer import Scorer
from reasonrl.scoring.unjudged import check_unjudged

__all__ = ["Scored", "Scorer", "WeightedVerifier", "check_unjudged"]
