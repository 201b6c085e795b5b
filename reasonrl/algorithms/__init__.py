"""The mathematics as pure tensor functions, one idea a file; they import torch and nothing else."""
