# %% [markdown]
"""
# Evaluate a new decoding method

A recipe of your own becomes a method that formulas can call, and `marith.evals` measures it. See
[Methods of your own](../how-to/own_methods.md) and [Evaluation](../how-to/evaluation.md). Install
`pip install 'marith[evals]'` first.
"""

# %%
import matplotlib.pyplot as plt

import marith
from marith import Formula
from marith.evals.evaluations import TextsConfig, evaluate_texts
from marith.formula.tree.factors import Factor

# %% [markdown]
"""
The method strengthens a persona at the beginning of an answer alone, where the tone is set:
`M_persona + α(t)·(M_persona − M)`, with α(t) falling from α to 0.
"""


# %%
def opening(
    persona: Formula, model: Formula, strength: Factor = 1.0, half_life: int = 4
) -> Formula:
    """Return a persona that is stronger at the beginning, by half after each `half_life` tokens."""
    return persona + strength * marith.decay(half_life) * (persona - model)


marith.define("opening", opening)
print(marith.explain("opening(formal, M)"))

# %% [markdown]
"""
The method is compared with the prompt alone and with a constant strength. `pocket-formality` judges
how formal an answer is. Perplexity, measured under `M`, says how unusual it is.
"""

# %%
results = evaluate_texts(
    TextsConfig(
        formulas=["M", "formal", "2*formal - M", "opening=opening(formal, M)"],
        terms={"formal": "You are an assistant using formal and objective language."},
        measures=["formality=pocket-formality:formal"],
        n=16,
        max_tokens=24,
    )
)
table = results.to_dataframe().set_index("name")
print(table[["formality mean", "formality low", "formality high", "perplexity median"]].round(3))

# %% [markdown]
"""
`low` and `high` are the ends of the 95 % interval of the mean. `opening` is as formal as a constant
strength, at a lower perplexity. On 16 prompts this is a hint: raise `n` before you rely on it.
"""

# %%
figure, axes = plt.subplots(figsize=(5, 3.2), layout="constrained")
for name, row in table.iterrows():
    mean, low, high = (row[f"formality {part}"] for part in ("mean", "low", "high"))
    axes.errorbar(
        row["perplexity median"], mean, [[mean - low], [high - mean]], fmt="o", label=name
    )
axes.set(xlabel="perplexity under M, median", ylabel="formality")
axes.legend()
plt.show()

# %% [markdown]
"""
`results.texts_to_dataframe()` has every text. Read some before you believe a mean.
"""

# %%
by_text = results.texts_to_dataframe()
for name, text in by_text.groupby("name", sort=False)["text"].first().items():
    print(f"{name:<14}{text}")
