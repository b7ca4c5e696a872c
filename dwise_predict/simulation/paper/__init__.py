"""The paper's evaluation, replayed: its workload, its predictors emulated, its tables compared."""
