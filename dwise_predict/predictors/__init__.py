"""Predictors of denoising rounds: at admission from the prompt, after one round from hidden states.

Nothing is imported here, so that a scheduler that needs only ``predictors.admission`` does not
load torch.
"""
