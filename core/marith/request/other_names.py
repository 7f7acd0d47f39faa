"""Map names of options in other libraries to marith's names, or to advice on what to write.

The names are from transformers, llama.cpp and llama-cpp-python, Ollama, vLLM, OpenAI's API,
LangChain and LlamaIndex.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

# The options of a call, of `Sampling`, of `Stop` and of an engine, each with its names in other
# libraries. The keys are the names of the options in calls of an engine and of `Engine.load`. The
# name of a field may differ: the option `stop` is the field `Stop.strings`.
_OF_CALLS: Mapping[str, tuple[str, ...]] = {
    "ban": ("bad_words", "bad_words_ids"),
    "cache_salt": ("prompt_cache_key",),
    "constraints": ("logits_processor", "logits_processors"),
    "speculation": (
        "assistant_model", "prompt_lookup_num_tokens", "draft_model", "speculative_config",
        "num_speculative_tokens",
    ),
    "timeout": ("request_timeout", "max_time"),
}  # fmt: skip
_OF_SAMPLING: Mapping[str, tuple[str, ...]] = {
    "temperature": ("temp",),
    "top_k": (),
    "top_p": (),
    "seed": (),
    "min_p": (),
    "repetition_penalty": ("repeat_penalty",),
    "presence_penalty": (),
    "frequency_penalty": (),
    "logit_bias": (),
}
_OF_STOP: Mapping[str, tuple[str, ...]] = {
    "max_tokens": (
        "max_new_tokens", "max_length", "max_completion_tokens", "max_output_tokens", "n_predict",
        "num_predict", "max_gen_toks", "num_output", "max_tokens_to_sample",
    ),
    "stop": ("stop_sequences", "stop_strings", "stop_words", "strings"),
    "stop_token_ids": ("eos_token_id", "stopping_ids", "token_ids"),
    "min_tokens": ("min_new_tokens", "min_length"),
    "ignore_eos": (),
    "max_reasoning_tokens": (
        "thinking_token_budget", "thinking_budget_tokens", "thinking_budget", "reasoning_budget",
        "max_thinking_tokens",
    ),
}  # fmt: skip
_OF_ENGINES: Mapping[str, tuple[str, ...]] = {
    "model": (
        "model_name", "model_path", "model_id", "pretrained", "repo_id", "model_url",
        "pretrained_model_name_or_path",
    ),
    "device": (
        "device_map", "n_gpu_layers", "num_gpu", "gpu_layers", "tensor_parallel_size", "main_gpu",
        "pipeline_parallel_size",
    ),
    "dtype": ("torch_dtype",),
    "max_lanes": ("max_num_seqs", "n_parallel"),
    "max_queue": (),
    "cache_bytes": ("gpu_memory_utilization", "kv_cache_memory_bytes"),
    "loaded_bytes": (),
    "max_batched_tokens": (
        "max_num_batched_tokens", "n_batch", "chunked_prefill_size", "max_prefill_tokens",
    ),
    "context_length": (
        "max_model_len", "max_seq_len", "n_ctx", "num_ctx", "context_window", "context_size",
        "max_seq_length", "max_context_length",
    ),
    "revision": (),
    "backend": (),
    "max_memory": (),
    "over": (),
}  # fmt: skip
_BY_OPTION = {**_OF_CALLS, **_OF_SAMPLING, **_OF_STOP, **_OF_ENGINES}
OF_ENGINES = tuple(_OF_ENGINES)
# The options that place a model and limit its engine.
PLACEMENT = tuple(name for name in OF_ENGINES if name != "model")
_BITS = "load a checkpoint that is quantised already, or a GGUF file"
_FORM = "a call takes grammar=Grammar.json_schema(…), regex(…), choice(…) or lark(…)"
_SYSTEM = "write a message of the role system, or a term: terms={'chef': 'You are a chef.'}"
_LOCAL = "marith runs the model in this process"
_SAMPLED = "tokens are sampled; write temperature=0 for the likeliest tokens"
_TEMPLATE = "the template comes with the checkpoint"
_THREADS = "set OMP_NUM_THREADS in the environment before Python starts"
_LORA = "write a term: terms={'style': Prompted(adapter='…')}"
_VECTORS = "write a term: terms={'happy': Prompted(vectors={'happy.gguf': 1.2})}"
_PROMPT = "the prompt is the first argument of a call, and a list of prompts gives a list of texts"
_MANY = "generate and agenerate take n, the number of samples"
_BY_NAME = "write each option by its name"
_HUB = "the hub's settings come from the environment: HF_TOKEN, HF_HOME and HF_HUB_OFFLINE"
_BATCHES = "marith itself batches the requests that run together, up to max_lanes"
_CHOSEN = "marith chooses by the model and the device how a model is run"
# What to write instead of an option that marith does not have.
_SENTENCES: Mapping[str, str] = {
    **dict.fromkeys(("load_in_4bit", "load_in_8bit", "quantization", "quantize"), _BITS),
    "quantization_config": _BITS,
    **dict.fromkeys(("guided_json", "guided_regex", "guided_choice", "guided_grammar"), _FORM),
    **dict.fromkeys(("structured_outputs", "json_schema", "schema", "format"), _FORM),
    **dict.fromkeys(("response_format", "grammar"), _FORM),
    **dict.fromkeys(("system", "system_prompt", "system_message", "instructions"), _SYSTEM),
    **dict.fromkeys(("api_key", "openai_api_key", "huggingfacehub_api_token"), _LOCAL),
    **dict.fromkeys(("base_url", "api_base", "openai_api_base", "organization"), _LOCAL),
    **dict.fromkeys(("do_sample", "num_beams", "use_beam_search", "length_penalty"), _SAMPLED),
    "typical_p": "write top_p, top_k or min_p",
    **dict.fromkeys(("threads", "n_threads", "num_threads", "num_thread"), _THREADS),
    **dict.fromkeys(("adapter", "lora_path", "lora_request", "peft"), _LORA),
    **dict.fromkeys(("vectors", "control_vector", "control_vectors"), _VECTORS),
    "steer_vector_request": _VECTORS,
    **dict.fromkeys(("n", "num_return_sequences", "best_of"), _MANY),
    **dict.fromkeys(("messages", "prompts", "inputs"), _PROMPT),
    **dict.fromkeys(("model_kwargs", "generate_kwargs", "pipeline_kwargs"), _BY_NAME),
    **dict.fromkeys(("hf_token", "use_auth_token", "cache_dir", "local_files_only"), _HUB),
    **dict.fromkeys(("max_batch_size", "batch_size"), _BATCHES),
    **dict.fromkeys(("enforce_eager", "attn_implementation", "flash_attn", "use_cache"), _CHOSEN),
    "enable_prefix_caching": "marith always caches prefixes",
    "streaming": "call stream or astream",
    "guidance_scale": "write a formula with the recipe cfg",
    "trust_remote_code": "marith never runs the code of a checkpoint",
}
# Other libraries' names for the chat template itself, and for options that are passed to a
# template.
_TEMPLATES = ("chat_template", "chat_format", "template")
_OPTIONS_OF_TEMPLATES = ("enable_thinking", "reasoning_effort")
# These remarks follow the advice where marith's option differs from the other library's.
_REMARKS: Mapping[str, str] = {
    "gpu_memory_utilization": ", a number of bytes, and not a share of the memory",
    "max_num_seqs": ", one lane for each term of each request",
}
# This maps each option's name in another library to marith's name.
RENAMED: Mapping[str, str] = {
    other: name for name, others in _BY_OPTION.items() for other in others
}
_OF_AN_ENGINE = "{} is an option of an engine, such as Engine.load(…, {}=…)"
_OF_A_CALL = "{} is an option of a call, such as engine.generate(…, {}=…)"


def keywords(names: Iterable[str]) -> dict[str, str]:
    """Return each option as a keyword argument: `name=…`."""
    return {name: f"{name}=…" for name in names}


def advice_for(
    written: Mapping[str, str], template: str = "write chat_template_kwargs={…}"
) -> dict[str, str]:
    """Return advice for names that a class or call does not take: what to write there instead.

    A name may be another library's, or marith's name of an option that belongs elsewhere.
    `written` maps each option that the class or call takes to its spelling there, such as
    `strings=['…']` for `stop`. `template` says how to write the options of a chat template there.
    """
    advice = {
        **_SENTENCES,
        **dict.fromkeys(_TEMPLATES, f"{_TEMPLATE}; {template} for its options"),
        **dict.fromkeys(_OPTIONS_OF_TEMPLATES, template),
    }
    for other, name in {**RENAMED, **{name: name for name in _BY_OPTION}}.items():
        remark = _REMARKS.get(other, "")
        if name in written:
            advice[other] = f"write {written[name]}{remark}"
        else:
            where = _OF_AN_ENGINE if name in OF_ENGINES else _OF_A_CALL
            advice[other] = where.format(name, name) + remark
    return advice


_SAMPLING = keywords(_OF_SAMPLING)
_STOP = {**keywords(_OF_STOP), "stop": "strings=['…']", "stop_token_ids": "token_ids=[…]"}


def _within(form: str, written: Mapping[str, str]) -> dict[str, str]:
    """Return options as they are written inside another argument."""
    return {name: form.format(text) for name, text in written.items()}


_WRITE_TEMPLATE = "write template_options={…}"
_CALL_TAKES_TEMPLATE = "a call takes template_options={…}"
# Advice for each class or call: what to write instead of a name that it does not take.
AT_SAMPLING = advice_for(_SAMPLING | _within("Stop({})", _STOP), _CALL_TAKES_TEMPLATE)
AT_STOP = advice_for(_STOP | _within("Sampling({})", _SAMPLING), _CALL_TAKES_TEMPLATE)
AT_REQUESTS = {
    **advice_for(
        keywords(_OF_CALLS)
        | _within("sampling=Sampling({})", _SAMPLING)
        | _within("stop=Stop({})", _STOP),
        _WRITE_TEMPLATE,
    ),
    "chat_template_kwargs": _WRITE_TEMPLATE,
    "messages": "write prompt=…",
}
AT_ENGINES = advice_for(keywords(_OF_ENGINES), _CALL_TAKES_TEMPLATE)
AT_CALLS = {
    **advice_for(
        keywords([*_OF_CALLS, *_OF_SAMPLING, *_OF_STOP])
        | {"stop": "stop=['…']", "stop_token_ids": "stop_token_ids=[…]"},
        _WRITE_TEMPLATE,
    ),
    "chat_template_kwargs": _WRITE_TEMPLATE,
    "inspect": "inspect the text: marith.inspect(engine, prompt, completion.tokens, …)",
}
