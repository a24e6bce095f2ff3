"""The ablation the paper does not have: selector x weighting x budget."""
