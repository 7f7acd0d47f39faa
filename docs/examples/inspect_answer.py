# %% [markdown]
"""
# See why an answer has its tokens

An inspection shows how much each part of a formula pushed each token.
[Why this token?](../how-to/inspecting.md) explains the numbers.
"""

# %%
import marith

engine = marith.Engine.load("pocket")
terms = {"chef": "You are an angry chef."}
formula = "2*chef - M"
question = "What do you know about bees?"
answer = engine.generate(question, formula, terms, temperature=0, max_tokens=32)
inspection = marith.inspect(engine, question, answer.tokens, formula, terms)
print(answer.text)

# %% [markdown]
"""
A notebook shows an inspection as text and a table. Blue tokens became likelier than under the bare
model, orange ones less likely. The tokens in bold were the formula's choice and not the model's.
"""

# %%
inspection

# %% [markdown]
"""
With `pip install 'marith[notebook]'` the widget shows the card of the token that you press: the
push of each part, and the other likely tokens. It needs a running notebook.
"""

# %%
inspection.widget()

# %% [markdown]
"""
The same numbers in Python, for the first token that the formula changed:
"""

# %%
changed = inspection.flipped[0]
print(repr(changed.text), "and not", repr(changed.bare_likeliest.text))
for part, contribution in zip(inspection.parts, changed.contributions, strict=True):
    print(f"{part.text:>8} {contribution.value:+.2f}")

# %%
engine.close()
