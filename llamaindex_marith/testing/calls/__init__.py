"""What must hold for every call: options, streams, events, usage, errors, cancellation."""
