package sched

// yields decides whether a lane yields before it takes a batch of tiny runs. A yield that brought no further job makes
// the next ones rarer, down to one in mostRare: it costs a lone client next to nothing and still notices when others have
// come. One that did brings them all back. Its owner's mutex guards it.
type yields struct{ pause, skip int }

const mostRare = 32

func (y *yields) due() bool {
	if y.skip == 0 {
		return true
	}
	y.skip--
	return false
}

// brought notes whether a yield was worth it.
func (y *yields) brought(company bool) {
	if company {
		*y = yields{}
		return
	}
	y.pause = min(2*y.pause+1, mostRare-1)
	y.skip = y.pause
}
