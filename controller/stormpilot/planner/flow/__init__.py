"""Planning by the flow model: the search, and when it is used."""
