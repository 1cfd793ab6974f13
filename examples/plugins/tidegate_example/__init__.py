"""One plugin of each kind for tidegate. docs/extending.md of tidegate explains them."""
