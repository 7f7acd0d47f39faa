"""Under the routes: who may ask, how events go out, who has left."""
