"""Solutions whose steps are labelled: read from files, and made from rollouts by sampling on from each step."""
