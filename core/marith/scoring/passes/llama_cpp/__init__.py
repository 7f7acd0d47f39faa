"""llama.cpp's passes: a lane is one of its sequences."""
