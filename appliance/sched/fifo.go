package sched

// fifo is a list of waiting jobs, linked through the jobs themselves.
type fifo struct{ first, last *job }

func (f *fifo) append(j *job) {
	j.list, j.prev, j.next = f, f.last, nil
	if f.last == nil {
		f.first = j
	} else {
		f.last.next = j
	}
	f.last = j
}

func (f *fifo) remove(j *job) {
	if j.prev == nil {
		f.first = j.next
	} else {
		j.prev.next = j.next
	}
	if j.next == nil {
		f.last = j.prev
	} else {
		j.next.prev = j.prev
	}
	j.list, j.prev, j.next = nil, nil, nil
}
