"""Does the model fit, can the draws be trusted, which items deserve a look."""
