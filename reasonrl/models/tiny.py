"""A small Llama and a character-level tokenizer made on the spot: real transformers objects, no download."""

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

PAD, EOS, UNK = "<pad>", "<eos>", "<unk>"


def character_tokenizer(characters: str) -> PreTrainedTokenizerFast:
    """A tokenizer with one token per character, beside padding, end of sequence and unknown."""
    vocabulary = {token: index for index, token in enumerate([PAD, EOS, UNK, *characters])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNK))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=PAD, eos_token=EOS, unk_token=UNK, clean_up_tokenization_spaces=False
    )


def tiny_llama(
    tokenizer: PreTrainedTokenizerFast,
    *,
    hidden_size: int,
    intermediate_size: int,
    layers: int,
    heads: int,
    max_positions: int,
    attention: str,
    seed: int,
) -> LlamaForCausalLM:
    """A Llama with tied embeddings and weights drawn from `seed`, without touching the global random state."""
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden_size,
        intermediate_size=intermediate_size,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        max_position_embeddings=max_positions,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        attn_implementation=attention,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return LlamaForCausalLM(config)
