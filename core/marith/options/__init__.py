"""What does an application say of a model?

- `file`: the persona file: named formulas, each with its options.
- `meaning`: cached results of options.
- `option_checks`: checks of options, and objects among them.
- `option_fields`: every option as a field with a sentence.
- `options`: `Options`: plain data that submits requests.
"""
