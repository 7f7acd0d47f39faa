"""One model's forward passes, and the caches that they read and write.

Each strategy for the cache has a folder. No strategy imports another, and no file here imports one.

- `rectangle/`: keys and values as one rectangle with a row for each lane (GPU).
- `segments/`: keys and values in segments, with shared prefixes (CPU).
- `states/`: recurrent and hybrid models: a state for each text.
- `llama_cpp/`: texts as sequences of llama.cpp.

What they share:

- `addressed_layer`: layers of a cache; the cache decides where their keys and values lie.
- `cached_runner`: runs many texts in one pass, and caches keys and values.
- `chunked_prefill`: chooses how much of a long prompt one call reads.
- `decoder_layers`: finds the decoder layers of a model.
- `early_exit`: computes logits after an inner layer.
- `lanes`: the text of each row of the cache, shared prefixes, and the inputs of a pass.
- `layer_masks`: attention masks of full, sliding and chunked layers.
- `lora`: an adapter for each row of a pass: a LoRA, vectors, or both.
- `passes`: the forward passes of a model, and the interface of runners.
- `plain_runner`: runs a model without a cache: whole texts.
- `probe`: compares cached passes with uncached ones when a model is loaded.
- `questions`: the lane of a request's text, a question about it, and its answer.
- `shifts`: adds vectors after decoder layers, for each row or token of a pass.
"""
