"""pass@k of a model on a task, with every response it rests on."""
