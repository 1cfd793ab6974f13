"""Programs that only prove claims of this project: the seeds runner, the demonstrations, generated sessions."""
