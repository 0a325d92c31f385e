"""Parts that change updates by themselves or by the parameters: limits, decay, ratios, rates."""
