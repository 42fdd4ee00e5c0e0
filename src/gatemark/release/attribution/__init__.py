"""Why a decision went wrong: recorded checks, counterfactual replay, spectra, delta debugging."""
