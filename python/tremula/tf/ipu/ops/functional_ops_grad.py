"""Nothing of its own: gradients of these operations come with them."""
