"""BioLORD (Remy et al. 2022 and 2024), phase by phase."""
