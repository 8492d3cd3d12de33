"""Which mechanism, which epsilon and which cap meet what is asked of privacy and of utility."""
