"""What the HTML reports of the reconciler and of the trial have in common."""
