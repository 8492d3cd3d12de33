"""Settings that change by the moment, and what they give away: few users at once, more as time allows."""
