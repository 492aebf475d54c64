package sched

// order holds answers back until those of all earlier requests have left. Its owner's mutex guards it. Jobs enter it
// when they are queued, and lanes take jobs in the same order, so what holds others back is always running.
type order struct {
	waiting []*job // in the order of arrival; answered ones behind one that is not
}

func (o *order) enter(j *job) { o.waiting = append(o.waiting, j) }

// leave removes a job that was withdrawn unanswered from the queue. Those behind it are unanswered too.
func (o *order) leave(j *job) {
	for i, k := range o.waiting {
		if k == j {
			o.waiting = append(o.waiting[:i], o.waiting[i+1:]...)
			return
		}
	}
}

// answered notes the answers of jobs and appends to list those that may leave now.
func (o *order) answered(jobs, list []*job) []*job {
	for _, j := range jobs {
		j.answered = true
	}
	n := 0
	for n < len(o.waiting) && o.waiting[n].answered {
		n++
	}
	list = append(list, o.waiting[:n]...)
	rest := copy(o.waiting, o.waiting[n:])
	clear(o.waiting[rest:])
	o.waiting = o.waiting[:rest]
	return list
}
