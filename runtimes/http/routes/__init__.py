"""One module per noun of the API: each translates between HTTP and a use case."""
