"""`python -m reasonrl …` is `reasonrl …`, also under launchers: `torchrun --nproc-per-node 2 -m reasonrl train …`."""

from reasonrl.cli import main

main()
