"""Training loops: each reads like its paper's pseudocode and calls pure functions, the engine and the scorer."""
