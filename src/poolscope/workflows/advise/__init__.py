"""Which mechanism, which ε and which cap meet what is asked of privacy and of utility."""
