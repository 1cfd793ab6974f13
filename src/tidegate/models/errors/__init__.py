"""Classification of provider errors."""
