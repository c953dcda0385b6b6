"""Analysis of counts: PMI, delta, MaxPMIDiff, comparison of tables, figures."""
