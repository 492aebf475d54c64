package observe

// Fleet is what a box is told by its fleet.
type Fleet struct {
	Serial    int64 // of the document that it follows; 0: none
	Converged bool
	Failures  uint64 // of polls, actions and reports
}

// collectFleet sends the state of a box in its fleet.
func (c *collector) collectFleet(to sink) {
	if c.source.Fleet == nil {
		return
	}
	f := c.source.Fleet()
	if f == nil {
		return
	}
	to.gauge("edgewise_fleet_serial", "Serial of the fleet's document that the box follows, 0 for none.", float64(f.Serial))
	to.gauge("edgewise_fleet_converged", "1 when the box is what the document of its fleet says.", truth(f.Converged))
	to.counter("edgewise_fleet_failures_total", "Requests to the fleet's source, actions and reports that failed.", float64(f.Failures))
}
