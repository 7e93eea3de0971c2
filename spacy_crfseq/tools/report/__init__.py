"""A page on a trained component: `report`."""
