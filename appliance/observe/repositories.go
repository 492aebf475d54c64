package observe

// Repository is the state of a model repository that is not on this machine.
type Repository struct {
	Place    string
	Up       bool  // it could be read when it was looked at last
	Received int64 // bytes of files
}

// collectRepositories sends the states of model repositories.
func (c *collector) collectRepositories(to sink) {
	if c.source.Repositories == nil {
		return
	}
	for _, r := range c.source.Repositories() {
		of := to.with("repository", r.Place)
		of.gauge("edgewise_repository_up", "Whether a remote model repository could be read when it was looked at last.", truth(r.Up))
		of.counter("edgewise_repository_received_bytes_total", "Bytes of files received from a remote model repository.",
			float64(r.Received))
	}
}
