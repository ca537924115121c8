"""Pictures of reports: a `Figure` says as data what is shown, `svg.draw` draws it."""
