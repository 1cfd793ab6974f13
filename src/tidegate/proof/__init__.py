"""Programs that prove claims of this project: the seeds runner, the demo's checks, generated sessions."""
