"""All that a run is at the end of a step, in a folder that is whole or not there: safetensors, JSON, checksums."""
