"""How does an application configure a model? Plain data, without torch until it is used."""
