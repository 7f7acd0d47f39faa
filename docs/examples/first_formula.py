# %% [markdown]
"""
# Your first formula

[The tutorial](../tutorials/first_formula.md) explains each step. The model is `pocket`, a small
model in the package, and nothing is downloaded.
"""

# %%
import marith

terms = {"chef": "You are an angry chef."}
print(marith.explain("2*chef - M", terms))

# %% [markdown]
"""
An engine loads the model once. Then each call may have a formula of its own.
"""

# %%
engine = marith.Engine.load("pocket")
question = "What do you know about owls?"
for chunk in engine.stream(question, "M + chef", terms, temperature=0, max_tokens=48):
    print(chunk.text, end="", flush=True)
print()

# %% [markdown]
"""
In `M + s*(chef - M)` the factor `s` is the strength: 0 is the bare model, 1 is the prompt, and more
goes beyond the prompt. `score` says how likely the first words of the bare model remain.
"""

# %%
for strength in (0, 0.5, 1, 1.5):
    formula = f"M + {strength}*(chef - M)"
    answer = engine.generate(question, formula, terms, temperature=0, max_tokens=32)
    logprob = sum(engine.score(question, "The subject of owls", formula, terms))
    print(f"{formula:<20} log P = {logprob:5.1f}  {answer.text}")

# %%
engine.close()
