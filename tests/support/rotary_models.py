"""Small models whose rotary frequencies depend on how long a text is."""

from __future__ import annotations

from typing import Any

import torch
from support.asking import VOCAB
from transformers import AutoConfig, AutoModelForCausalLM

LIMIT = 20  # tokens, up to which all texts have the same frequencies
_LONG = {"rope_type": "longrope", "rope_theta": 1e4, "factor": 4.0, "attention_factor": 1.2,
         "short_factor": [1.0, 1.2, 1.4, 1.6], "long_factor": [3.0, 1.0, 2.0, 5.0]}  # fmt: skip
KINDS = ("phi3 longrope", "llama longrope", "llama dynamic")


def rotary_model(kind: str, limit: int = LIMIT) -> Any:
    """One of `KINDS`, with random weights that are always the same, in float32."""
    family, _, rope = kind.partition(" ")
    sizes = {"original_max_position_embeddings": limit} if family == "phi3" else {}
    long = {**_LONG, "original_max_position_embeddings": limit}
    dynamic = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0}
    config = AutoConfig.for_model(
        family, vocab_size=VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, sliding_window=None, bos_token_id=0,
        eos_token_id=None, pad_token_id=0, rope_parameters=long if rope == "longrope" else dynamic,
        max_position_embeddings=1024 if rope == "longrope" else limit, **sizes,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config).eval()
        for parameter in model.parameters():
            if parameter.ndim >= 2:
                parameter.normal_(std=0.3)
    return model
