"""The options that an application sets for a model.

- `cached_objects`: caches objects that are made from options, such as bound formulas.
- `option_checks`: checks options of requests, options of placement, and objects such as engines.
- `option_fields`: defines every option as a field, with a check and a description.
- `options`: defines `Options`: plain data that submits requests.
- `persona_file`: reads terms, formulas and options from a TOML file.
- `persona_options`: completes options from a persona file, and switches between its formulas.
- `untrusted`: names the options that strangers may set, in a call or in a file.
"""
